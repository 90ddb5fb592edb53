#include "jit/run/arguments.h"
#include <algorithm>

namespace lazuli::jit {

int64_t chunk_move(const lowering::PlanStep& step, size_t a) {
  const lowering::BoundAccess& access = step.loops.accesses[a];
  const int64_t elements =
      access.partial ? step.kept_points : step.loops.sizes[step.chunk_dim] * access.strides[step.chunk_dim];
  return elements * ir::item_size(step.loops.nest.accesses[a].dtype);
}

int64_t* Arguments::add(const lowering::PlanStep& step, int64_t chunk, size_t extra) {
  const lowering::Loops& loops = step.loops;
  const lowering::KernelArgsLayout at(loops.nest);
  const auto base = static_cast<uint32_t>(args_.size());
  args_.resize(base + at.total + extra);
  int64_t* args = args_.data() + base;
  args[0] = loops.block;
  std::copy(loops.sizes.begin(), loops.sizes.end(), args + at.sizes);
  const int64_t size = loops.sizes.empty() ? ir::Size(0) : loops.sizes[step.chunk_dim];
  if (step.chunks > 1) args[at.sizes + step.chunk_dim] = std::min<int64_t>(size, step.chunk_total - chunk * size);
  for (size_t a = 0; a < loops.accesses.size(); ++a) {
    const lowering::BoundAccess& access = loops.accesses[a];
    const int64_t offset = access.offset * ir::item_size(loops.nest.accesses[a].dtype);
    addresses_.push_back({static_cast<uint32_t>(base + at.pointers + a), step.blocks[a],
                          offset + (step.chunks > 1 ? chunk * chunk_move(step, a) : 0)});
    std::copy(access.strides.begin(), access.strides.end(), args + at.strides + a * loops.nest.rank);
    args[at.index_strides + a] = access.index_stride;
  }
  for (size_t p = 0; p < loops.params.size(); ++p) {
    if (loops.params[p].scalar >= 0)
      numbers_.push_back({static_cast<uint32_t>(base + at.params + p), static_cast<uint32_t>(loops.params[p].scalar)});
    else
      args[at.params + p] = loops.params[p].bits;
  }
  return args;
}

int64_t* Arguments::add_words(size_t count, int64_t value) {
  args_.resize(args_.size() + count, value);
  return args_.data() + (args_.size() - count);
}

void Arguments::fill(std::span<const Buffer> memory, std::span<const int64_t> scalars) {
  for (const Address& a : addresses_)
    args_[a.arg] = reinterpret_cast<int64_t>(static_cast<char*>(memory[a.block].data) + a.offset);
  for (const Number& n : numbers_) args_[n.arg] = scalars[n.scalar];
}

}  // namespace lazuli::jit
