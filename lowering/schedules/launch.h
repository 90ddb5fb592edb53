// How a kernel's work is cut: lanes per block along the vector dimension.
#pragma once
#include "lowering/loops.h"

namespace lazuli::lowering {

// Columns of one block of a column reduction: each block walks all rows, which should share cache lines, and blocks are
// to be left for every thread.
inline constexpr int64_t kColumns = 64;

void choose_launch(Loops& loops, int threads);

}  // namespace lazuli::lowering
