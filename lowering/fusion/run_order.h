// The order in which kernels and calls run: the program's, except that what lets go of more memory than it takes runs
// as soon as it can. A bias's gradient is such a sum: the program may speak of it long after the last product that
// reads what it sums, since an optimizer's update became part of its kernel.
#pragma once
#include <cstdint>
#include <span>
#include <vector>
#include "ir/size.h"

namespace lazuli::lowering {

struct Task {
  uint32_t place = 0;                   // in the program
  std::vector<uint32_t> sources;        // the tasks that it waits for, once each
  std::vector<uint32_t> reads, writes;  // values, once each
};

// `bytes`: of every value, as memory that is allocated when its first writer runs. `kept`: whether it stays when its
// last reader has run, as inputs and outputs do. Returns the tasks' numbers; throws InternalError where they wait for
// each other.
std::vector<uint32_t> run_order(std::span<const Task> tasks, const std::vector<ir::Size>& bytes,
                                const std::vector<bool>& kept);

}  // namespace lazuli::lowering
