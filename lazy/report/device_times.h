// How long launches take on a backing device that works while the host goes on. Two events around a launch tell it,
// once both have passed. They take the host as long as the launch does, so only few runs are measured.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <c10/core/Event.h>

namespace lazuli::lazy {

class DeviceTimes {
 public:
  struct Time {
    int64_t count = 0;
    double total = 0;  // us
  };

  // Whether the next run of a trace is to be measured: the first one, and ever fewer; of all runs a small share, as
  // traces may be many.
  bool is_due(int64_t runs, int64_t measured) const;
  // A run has ended.
  void ran(bool measured) { ++runs_, measured_ += measured; }
  // An event behind the work in the current stream.
  static c10::Event mark();

  void add(uint64_t executable, uint32_t step, c10::Event begin, c10::Event end);
  // Takes the times of the launches that are over.
  void look();
  Time of(uint64_t executable, uint32_t step) const;

 private:
  using Step = std::pair<uint64_t, uint32_t>;
  struct Launch {
    Step step;
    c10::Event begin, end;
  };
  std::deque<Launch> pending_;
  int64_t runs_ = 0, measured_ = 0;
  struct Known {
    bool has_warmed_up = false;
    Time time;
  };
  std::map<Step, Known> known_;
};

}  // namespace lazuli::lazy
