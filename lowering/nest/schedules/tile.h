// Tiling (loop_nest.h): the schedule of elementwise kernels in which some operands lie transposed to others.
#pragma once
#include "lowering/nest/loops.h"

namespace lazuli::lowering {

// Tiles the nest along the dimension along which most of the accesses that are not dense along the vector dimension
// are so instead. Leaves it alone where there is none, or none long enough to be worth turning anything round.
void choose_tile(Loops& loops);

}  // namespace lazuli::lowering
