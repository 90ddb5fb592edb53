// How a kernel's work is cut: lanes per block along the vector dimension.
#pragma once
#include "lowering/loops.h"

namespace lazuli::lowering {

void choose_launch(Loops& loops, int threads);

}  // namespace lazuli::lowering
