// A nest of one dimension, over dense arrays: emulated, or on a GPU.
#pragma once
#include <functional>
#include "lowering/plan/plan.h"
#include "tests/gpu/gpu.h"

namespace lazuli::testing {

using Bytes = std::vector<char>;

// What a nest of one store, its last access, makes of the arrays that it loads: `elements` of them. Empty if it writes
// elsewhere.
using Run = std::function<Bytes(const lowering::LoopNest& nest, int64_t elements, const std::vector<Bytes>& inputs)>;

Bytes run_emulated(const lowering::LoopNest& nest, int64_t elements, const std::vector<Bytes>& inputs);
Run run_on(Gpu& gpu);

}  // namespace lazuli::testing
