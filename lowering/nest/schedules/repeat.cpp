#include "lowering/nest/schedules/repeat.h"

namespace lazuli::lowering {
namespace {

bool counts_two_copies(const Loops& loops, uint32_t dim) {
  const LoopNest& nest = loops.nest;
  if (loops.sizes[dim].is_symbolic() || loops.sizes[dim] != 2) return false;
  for (const Inst& x : nest.insts)
    if (x.code == Code::Position && x.slot == dim) return false;
  for (size_t a = 0; a < nest.accesses.size(); ++a) {
    const ir::Dims& strides = loops.accesses[a].strides;
    const bool fits = nest.accesses[a].store
                          ? !nest.accesses[a].indexed && stride_class(strides[dim]) == VectorStride::One &&
                                stride_class(strides[dim - 1]) == VectorStride::Two
                          : stride_class(strides[dim]) == VectorStride::Zero;
    if (!fits) return false;
  }
  return true;
}

}  // namespace

void unroll_copies(Loops& loops) {
  LoopNest& nest = loops.nest;
  const uint32_t dim = nest.vector_dim();
  if (nest.schedule != Schedule::Column || nest.reduced > 0 || dim == 0 || !counts_two_copies(loops, dim)) return;
  loops.sizes.erase(dim);
  nest.rank -= 1;
  for (size_t a = 0; a < nest.accesses.size(); ++a) {
    ir::Dims& strides = loops.accesses[a].strides;
    strides.erase(dim);
    nest.accesses[a].stride = stride_class(strides[dim - 1]);
  }
  const size_t insts = nest.insts.size();
  for (size_t i = 0; i < insts; ++i) {
    if (nest.insts[i].code != Code::Store) continue;
    Inst copy = nest.insts[i];
    Access access = nest.accesses[copy.slot];
    BoundAccess bound = loops.accesses[copy.slot];
    bound.offset += 1;
    copy.slot = static_cast<uint16_t>(nest.accesses.size());
    nest.accesses.push_back(access);
    loops.accesses.push_back(std::move(bound));
    nest.insts.push_back(copy);
  }
}

}  // namespace lazuli::lowering
