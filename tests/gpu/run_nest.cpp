#include "tests/gpu/run_nest.h"
#include "tests/gpu/blocks.h"
#include "tests/gpu/emulator.h"
#include "tests/gpu/kernels.h"
#include "tests/gpu/step_launch.h"

namespace lazuli::testing {
namespace {

lowering::PlanStep step_of(const lowering::LoopNest& nest, int64_t elements) {
  lowering::PlanStep step;
  step.loops.nest = nest;
  step.loops.sizes = {elements};
  step.loops.accesses.resize(nest.accesses.size());
  for (uint32_t a = 0; a < nest.accesses.size(); ++a) {
    step.loops.accesses[a].strides = {1};
    step.blocks.push_back(a);
  }
  return step;
}

std::vector<Bytes> blocks_of(const lowering::LoopNest& nest, int64_t elements, std::vector<Bytes> inputs) {
  inputs.emplace_back(static_cast<size_t>(elements * ir::item_size(nest.accesses.back().dtype)));
  return inputs;
}

}  // namespace

Bytes run_emulated(const lowering::LoopNest& nest, int64_t elements, const std::vector<Bytes>& inputs) {
  const lowering::PlanStep step = step_of(nest, elements);
  std::vector<Bytes> blocks = blocks_of(nest, elements, inputs);
  const lowering::GpuLaunch launch = choose_launch(step);
  EmulatedKernel(nest, launch.variant).launch(launch, gpu_arguments(step, launch.variant, addresses_of(blocks), {}));
  return blocks.back();
}

Run run_on(Gpu& gpu) {
  return [&gpu](const lowering::LoopNest& nest, int64_t elements, const std::vector<Bytes>& inputs) {
    const lowering::PlanStep step = step_of(nest, elements);
    GpuKernels kernels(gpu);
    GpuBlocks device(gpu, blocks_of(nest, elements, inputs));
    kernels.launch(kernels.prepare(step), step, device.addresses(), {});
    gpu.synchronize();
    return device.read(inputs.size());
  };
}

}  // namespace lazuli::testing
