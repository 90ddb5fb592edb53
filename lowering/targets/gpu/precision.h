// How exact the instructions of a nest have to be, which is decided by what becomes of their results.
#pragma once
#include <vector>
#include "lowering/loop_nest.h"

namespace lazuli::lowering::gpu {

enum class Precision : uint8_t {
  Full,   // whatever the primitive promises
  Short,  // on its way to a reduced floating type, on which relative errors neither grow nor cancel: see short_math.h
};

// Per instruction. `first`: of equal instructions, which then share a result (find_repeated); empty if none do.
std::vector<Precision> find_precision(const LoopNest& nest, const std::vector<uint16_t>& first);

}  // namespace lazuli::lowering::gpu
