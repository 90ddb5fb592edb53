#include "lowering/nest/schedules/launch.h"
#include <algorithm>
#include "lowering/nest/cost.h"

namespace lazuli::lowering {

namespace {

// Whether a later stage computes again what is costly.
bool repeats_costly(const LoopNest& nest) {
  for (const Inst& x : nest.insts)
    for (const Inst& y : nest.insts)
      if (x.code == Code::Prim && y.code == Code::Prim && x.prim == y.prim && is_costly(x.prim) && x.stage < y.stage &&
          !x.row && !y.row)
        return true;
  return false;
}

}  // namespace

// Elementwise blocks are long, so that the loop around them costs nothing. The squares of a tiled nest keep both
// layouts in the second-level cache; smaller ones are for the sake of threads.
void choose_launch(Loops& loops, int threads) {
  constexpr int64_t kLong = 4096, kShort = 64, kSquare = 128;
  const ir::Size size = loops.sizes[loops.nest.vector_dim()];
  if (loops.nest.schedule == Schedule::Row) {
    loops.block = 1;
  } else if (loops.nest.tiled()) {
    const ir::Size squares = ir::product(loops.sizes) / (kSquare * kSquare);
    loops.block = squares < 4 * threads ? kSquare / 2 : kSquare;
  } else if (loops.nest.reduced == 0) {
    loops.block = clamp((size + threads - 1) / threads, ir::Size{kShort}, kLong);
    loops.block = (loops.block + kShort - 1) / kShort * kShort;
  } else {
    const ir::Size shared = size / (2 * threads) / kColumns * kColumns;
    loops.block = clamp(shared, kColumns, kMostColumns);
  }
}

// In few steps, so that sizes that change seldom ask for another kernel.
void choose_row_bound(Loops& loops) {
  constexpr uint16_t kKept = 4096;
  LoopNest& nest = loops.nest;
  nest.row_bound = 0;
  if (nest.schedule != Schedule::Row || nest.reduced != 1) return;
  const ir::Size size = loops.sizes[nest.vector_dim()];
  for (uint16_t bound : {16, 64})
    if (size <= bound) {
      nest.row_bound = bound;
      return;
    }
  if (repeats_costly(nest) && size <= kKept) nest.row_bound = kKept;
}

}  // namespace lazuli::lowering
