// How exact the instructions of a nest have to be, which is decided by what becomes of their results.
#pragma once
#include <vector>
#include "lowering/nest/loop_nest.h"

namespace lazuli::lowering::gpu {

// From little to much. The first two are on their way to a reduced floating type; short_math.h says what they get.
enum class Precision : uint8_t {
  Short,  // relative errors neither grow nor cancel on that way
  Near,   // there are sums on it, in which terms may cancel
  Full,   // whatever the primitive promises
};

// Per instruction. `first`: of equal instructions, which then share a result (find_repeated); empty if none do.
std::vector<Precision> find_precision(const LoopNest& nest, const std::vector<uint16_t>& first);

}  // namespace lazuli::lowering::gpu
