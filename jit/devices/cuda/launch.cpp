#include "jit/devices/cuda/launch.h"
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include "jit/arguments.h"
#include "jit/devices/cuda/linker.h"
#include "jit/nvptx_compiler.h"

namespace lazuli::jit::cuda {

using lowering::PlanStep;

namespace {

// Bytes that divide the address of access `a` in every chunk. Every block begins at a multiple of kAlignment.
int64_t alignment(const PlanStep& step, size_t a) {
  int64_t bytes = std::gcd(lowering::kAlignment, step.loops.accesses[a].offset * ir::item_size(step.loops.nest.accesses[a].dtype));
  return step.chunks > 1 ? std::gcd(bytes, chunk_move(step, a)) : bytes;
}

// Whether no access of the step loads memory that another one stores.
bool stores_elsewhere(const PlanStep& step) {
  for (size_t a = 0; a < step.blocks.size(); ++a)
    for (size_t b = 0; b < step.blocks.size(); ++b)
      if (step.loops.nest.accesses[a].store && !step.loops.nest.accesses[b].store && step.blocks[a] == step.blocks[b])
        return false;
  return true;
}

}  // namespace

lowering::GpuLaunch choose_launch(const PlanStep& step, const lowering::GpuTarget& target) {
  if (!lowering::fits_gpu(step.loops.nest)) throw std::runtime_error("a fused kernel has too many operands for a GPU");
  std::vector<int64_t> aligned;
  for (size_t a = 0; a < step.loops.accesses.size(); ++a) aligned.push_back(alignment(step, a));
  lowering::GpuLaunch launch = lowering::choose_gpu_launch(step.loops, aligned, step.chunks, step.chunk_dim, target);
  launch.variant.read_only = stores_elsewhere(step);
  return launch;
}

void check_for_gpu(const PlanStep& step) {
  static const char* wanted = std::getenv("LAZULI_CHECK_PTX");
  if (!wanted || !*wanted) return;
  const int capability = std::atoi(wanted);
  const lowering::GpuLaunch launch = choose_launch(step, {.capability = capability});
  link(compile_ptx(step.loops.nest, launch.variant, "kernel", capability), capability);
}

}  // namespace lazuli::jit::cuda
