// How many operations of ended traces are kept for a backward that may come, by Python line. A loop that keeps the sum
// of its losses keeps the history of them all: that shows here.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lazuli::lazy {

// One operation that is kept, while this lives.
class KeptHistory {
 public:
  KeptHistory() = default;
  explicit KeptHistory(uint32_t line);
  ~KeptHistory();
  KeptHistory(const KeptHistory& o) : KeptHistory(o.line_) {}
  KeptHistory& operator=(KeptHistory o) noexcept {
    std::swap(line_, o.line_);
    return *this;
  }

  struct Count {
    std::string where;
    int64_t count;
  };
  // Of lines that are known.
  static std::vector<Count> counts();

 private:
  uint32_t line_ = 0;
};

}  // namespace lazuli::lazy
