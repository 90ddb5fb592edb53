#include "lazy/support/kept_history.h"

#include <mutex>
#include <unordered_map>
#include <utility>
#include "lazy/support/mutex.h"
#include "lazy/support/source.h"

namespace lazuli::lazy {
namespace {

struct Table {
  Mutex mutex{Rank::Leaf};
  std::unordered_map<uint32_t, int64_t> counts;  // by line
};
Table& table() {
  static auto* t = new Table;  // outlives every thread
  return *t;
}

void add(uint32_t line, int64_t count) {
  if (line == 0) return;
  Table& t = table();
  std::lock_guard lock(t.mutex);
  t.counts[line] += count;
}

}  // namespace

KeptHistory::KeptHistory(uint32_t line) : line_(line) { add(line_, 1); }
KeptHistory::~KeptHistory() { add(line_, -1); }

std::vector<KeptHistory::Count> KeptHistory::counts() {
  std::vector<std::pair<uint32_t, int64_t>> found;
  {
    Table& t = table();
    std::lock_guard lock(t.mutex);
    for (const auto& [line, count] : t.counts)
      if (count > 0) found.emplace_back(line, count);
  }
  std::vector<Count> counts;
  for (const auto& [line, count] : found) counts.push_back({line_text(line), count});
  return counts;
}

}  // namespace lazuli::lazy
