// How a kernel's work is cut: lanes per block along the vector dimension, and how long rows may be.
#pragma once
#include "lowering/nest/loops.h"

namespace lazuli::lowering {

// Columns of one block of a column reduction, and the most of them: each block walks all rows, of which it should take
// whole cache lines, better several, and blocks are to be left for every thread.
inline constexpr int64_t kColumns = 64, kMostColumns = 256;

void choose_launch(Loops& loops, int threads);

// How long the nest's rows may be.
void choose_row_bound(Loops& loops);

}  // namespace lazuli::lowering
