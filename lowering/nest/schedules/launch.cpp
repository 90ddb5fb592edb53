#include "lowering/nest/schedules/launch.h"
#include <algorithm>

namespace lazuli::lowering {

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

}  // namespace lazuli::lowering
