#include "lowering/nest/schedules/tile.h"
#include <algorithm>

namespace lazuli::lowering {

void choose_tile(Loops& loops) {
  constexpr int64_t kShortest = 4;
  LoopNest& nest = loops.nest;
  if (nest.schedule != Schedule::Column || nest.reduced > 0) return;
  auto is_across = [&](size_t a, uint32_t d) {
    const Access& access = nest.accesses[a];
    return access.stride == VectorStride::Any && !access.indexed && loops.accesses[a].strides[d] == 1;
  };
  ir::Size most = 0;
  for (uint32_t d = 0; d < nest.vector_dim(); ++d) {
    if (loops.sizes[d].hint() < kShortest) continue;
    ir::Size across = 0;
    for (size_t a = 0; a < nest.accesses.size(); ++a) across += is_across(a, d);
    if (across <= most) continue;
    most = across;
    nest.tile = static_cast<uint8_t>(d);
  }
  for (size_t a = 0; nest.tiled() && a < nest.accesses.size(); ++a) nest.accesses[a].across = is_across(a, nest.tile);
}

}  // namespace lazuli::lowering
