#include "tests/gpu/step_launch.h"
#include <bit>

namespace lazuli::testing {
namespace {

using lowering::PlanStep;

int64_t item_size(const PlanStep& step, size_t access) { return ir::item_size(step.loops.nest.accesses[access].dtype); }

// From one chunk to the next, in bytes.
int64_t move_of(const PlanStep& step, size_t access) {
  const lowering::BoundAccess& a = step.loops.accesses[access];
  const int64_t chunk = step.loops.sizes[step.chunk_dim];
  return (a.partial ? step.kept_points : chunk * a.strides[step.chunk_dim]) * item_size(step, access);
}

std::vector<int64_t> arguments(const PlanStep& step, std::span<const uint64_t> blocks,
                               std::span<const int64_t> scalars) {
  const lowering::Loops& loops = step.loops;
  const lowering::KernelArgsLayout at(loops.nest);
  std::vector<int64_t> args(at.total);
  args[0] = loops.block;
  std::copy(loops.sizes.begin(), loops.sizes.end(), args.begin() + at.sizes);
  for (size_t a = 0; a < loops.accesses.size(); ++a) {
    const lowering::BoundAccess& access = loops.accesses[a];
    args[at.pointers + a] = static_cast<int64_t>(blocks[step.blocks[a]]) + access.offset * item_size(step, a);
    std::copy(access.strides.begin(), access.strides.end(), args.begin() + at.strides + a * loops.nest.rank);
    args[at.index_strides + a] = access.index_stride;
  }
  for (size_t p = 0; p < loops.params.size(); ++p)
    args[at.params + p] = loops.params[p].scalar >= 0 ? scalars[loops.params[p].scalar] : int64_t{loops.params[p].bits};
  if (loops.nest.checks) args[at.status] = static_cast<int64_t>(blocks.back());
  return args;
}

}  // namespace

lowering::GpuLaunch choose_launch(const PlanStep& step, const lowering::GpuTarget& target) {
  std::vector<int64_t> alignment;
  for (size_t a = 0; a < step.loops.accesses.size(); ++a) {
    const auto offset = static_cast<uint64_t>(step.loops.accesses[a].offset * item_size(step, a));
    alignment.push_back(int64_t{1} << std::countr_zero(offset | 64));
  }
  return choose_gpu_launch(step.loops, alignment, step.chunks, step.chunk_dim, target);
}

std::vector<int64_t> gpu_arguments(const PlanStep& step, const lowering::GpuVariant& variant,
                                   std::span<const uint64_t> blocks, std::span<const int64_t> scalars) {
  std::vector<int64_t> args = arguments(step, blocks, scalars);
  if (!variant.chunked) return args;
  const lowering::GpuArgsLayout at(step.loops.nest, true);
  args.resize(at.total);
  args[at.chunk_size] = step.loops.sizes[step.chunk_dim];
  args[at.chunk_total] = step.chunk_total;
  for (size_t a = 0; a < step.loops.accesses.size(); ++a) args[at.moves + a] = move_of(step, a);
  return args;
}

lowering::GpuLaunch group_launch(std::span<const lowering::GpuLaunch> members) {
  lowering::GpuLaunch launch = members[0];
  launch.variant.members = static_cast<uint16_t>(std::bit_ceil(members.size()));
  launch.grid[0] = 0;
  for (const lowering::GpuLaunch& m : members) launch.grid[0] += m.grid[0];
  return launch;
}

std::vector<int64_t> group_arguments(std::span<const PlanStep* const> steps,
                                     std::span<const lowering::GpuLaunch> members,
                                     std::span<const std::vector<uint64_t>> blocks) {
  const size_t capacity = std::bit_ceil(members.size());
  const lowering::GpuGroupLayout at(steps[0]->loops.nest, capacity);
  std::vector<int64_t> all(at.total);
  std::fill_n(all.begin(), capacity, lowering::GpuGroupLayout::kNoMember);
  int64_t first = 0;
  for (size_t m = 0; m < members.size(); ++m) {
    all[m] = first;
    first += members[m].grid[0];
    const std::vector<int64_t> args = arguments(*steps[m], blocks[m], {});
    std::copy(args.begin(), args.end(), all.begin() + static_cast<ptrdiff_t>(at.arguments + m * at.stride));
  }
  return all;
}

void interpret_step(const PlanStep& step, std::span<const uint64_t> blocks, std::span<const int64_t> scalars) {
  const lowering::LoopNest& nest = step.loops.nest;
  const lowering::KernelArgsLayout at(nest);
  for (int64_t c = 0; c < step.chunks; ++c) {
    std::vector<int64_t> args = arguments(step, blocks, scalars);
    if (step.chunks > 1) {
      const int64_t chunk = step.loops.sizes[step.chunk_dim];
      args[at.sizes + step.chunk_dim] = std::min<int64_t>(chunk, step.chunk_total - c * chunk);
      for (size_t a = 0; a < step.loops.accesses.size(); ++a) args[at.pointers + a] += c * move_of(step, a);
    }
    interpret(nest, args.data(), 0, units(nest, args.data()));
  }
}

}  // namespace lazuli::testing
