#include "lowering/nest/schedules/pairs.h"

namespace lazuli::lowering {
namespace {

bool can_be_paired(const Access& a) { return a.stride == VectorStride::Two && !a.indexed && !a.across; }

bool move_alike(const Loops& loops, size_t a, size_t b) {
  const Access &x = loops.nest.accesses[a], &y = loops.nest.accesses[b];
  const BoundAccess &first = loops.accesses[a], &second = loops.accesses[b];
  if (x.dtype != y.dtype || x.row != y.row || x.store != y.store || x.still != y.still) return false;
  if (first.partial || second.partial || first.value != second.value) return false;
  for (size_t d = 0; d < first.strides.size(); ++d)
    if (!always_equal(first.strides[d], second.strides[d])) return false;
  return true;
}

}  // namespace

void find_pairs(Loops& loops) {
  std::vector<Access>& accesses = loops.nest.accesses;
  for (size_t a = 0; a < accesses.size(); ++a) {
    if (!can_be_paired(accesses[a]) || accesses[a].after != kAlone) continue;
    for (size_t b = 0; b < accesses.size() && accesses[a].before == kAlone; ++b) {
      if (a == b || !can_be_paired(accesses[b]) || accesses[b].after != kAlone || accesses[b].before != kAlone ||
          !move_alike(loops, a, b))
        continue;
      if (!always_equal(loops.accesses[a].offset + 1, loops.accesses[b].offset)) continue;
      accesses[a].before = static_cast<uint16_t>(b);
      accesses[b].after = static_cast<uint16_t>(a);
    }
  }
}

}  // namespace lazuli::lowering
