// The GPU's default generator, from which torch's own kernels draw. A call that has to draw at a place of our choice
// borrows it: meanwhile it stands there, and afterwards where it stood. One call borrows it at a time, on whichever
// thread. Who else asks is told where it stands for everybody else.
#pragma once
#include <functional>
#include <ATen/core/Generator.h>

namespace lazuli::backend {

// Whether nobody has drawn from it since it was seeded.
bool is_gpu_generator_unused();

// Its state, as `at::Generator::get_state`: waits until no call borrows it.
at::Tensor gpu_generator_state();

// Makes a call whose kernels draw at this place of our generator's sequence. If another thread seeds the GPU's
// generator meanwhile, it is seeded afterwards, and the call is made anew. What the call throws is thrown.
void call_drawing_at(int64_t seed, int64_t offset, const std::function<void()>& call);

}  // namespace lazuli::backend
