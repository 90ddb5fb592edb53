#include "jit/devices/cuda/launch.h"
#include <algorithm>
#include <numeric>
#include <stdexcept>
#include "jit/devices/cuda/libraries.h"
#include "jit/run/arguments.h"

namespace lazuli::jit::cuda {

using lowering::PlanStep;

namespace {

constexpr int64_t kCached = 24 << 20;  // bytes that a second-level cache still has when a second kernel reads them

// Bytes that divide the address of access `a` in every chunk. Every block begins at a multiple of kAlignment.
int64_t alignment(const PlanStep& step, size_t a) {
  const int64_t offset = step.loops.accesses[a].offset * ir::item_size(step.loops.nest.accesses[a].dtype);
  const int64_t bytes = std::gcd(lowering::kAlignment, offset);
  return step.chunks > 1 ? std::gcd(bytes, chunk_move(step, a)) : bytes;
}

}  // namespace

lowering::PlanOptions plan_options(const CompileOptions& options, const lowering::GpuTarget& target) {
  return {.fusion = options.fusion,
          .groups = options.fusion,
          .threads = target.multiprocessors,
          .accumulate = options.fusion ? kCached : INT64_MAX,
          .tiles = false,
          .row_bounds = false,
          .libraries = &libraries(options.matmul)};
}

std::span<const PlanStep> members(const lowering::Plan& plan, uint32_t first) {
  return {plan.steps.data() + first, plan.launch(first).last - first};
}

int64_t first_block(const GroupLaunch& group, size_t member) {
  int64_t blocks = 0;
  for (size_t m = 0; m < member; ++m) blocks += group.members[m].grid[0];
  return blocks;
}

lowering::GpuLaunch choose_launch(const PlanStep& step, const lowering::GpuTarget& target) {
  if (!lowering::fits_gpu(step.loops.nest)) throw std::runtime_error("a fused kernel has too many operands for a GPU");
  std::vector<int64_t> aligned;
  for (size_t a = 0; a < step.loops.accesses.size(); ++a) aligned.push_back(alignment(step, a));
  return lowering::choose_gpu_launch(step.loops, aligned, step.chunks, step.chunk_dim, target);
}

std::vector<GroupLaunch> choose_launches(std::span<const PlanStep> steps, const lowering::GpuTarget& target) {
  std::vector<GroupLaunch> out;
  for (size_t s = 0; s < steps.size(); ++s) {
    const lowering::GpuLaunch launch = choose_launch(steps[s], target);
    if (!launch.grid[0]) continue;  // nothing to do
    const size_t most = launch.variant.chunked ? 1 : lowering::gpu_members(steps[s].loops.nest, steps.size());
    auto fits = [&](const GroupLaunch& g) {
      return g.variant == launch.variant && g.threads == launch.threads && g.steps.size() < most &&
             first_block(g, g.members.size()) + launch.grid[0] < lowering::GpuGroupLayout::kNoMember;
    };
    auto group = std::find_if(out.begin(), out.end(), fits);
    if (group == out.end()) group = out.insert(out.end(), {launch.variant, {}, {}, launch.threads});
    group->members.push_back(launch);
    group->steps.push_back(s);
  }
  for (GroupLaunch& g : out)
    g.variant.members = static_cast<uint16_t>(lowering::gpu_members(steps[g.steps[0]].loops.nest, g.steps.size()));
  return out;
}

}  // namespace lazuli::jit::cuda
