// Elements that are stored twice, one copy beside the other, as those of an image that gets larger. The innermost
// dimension counts the copies then, and is too short for vectors.
#pragma once
#include "lowering/nest/loops.h"

namespace lazuli::lowering {

// Stores each copy by an instruction of its own in place of that dimension. The two make whole vectors (find_pairs).
void unroll_copies(Loops& loops);

}  // namespace lazuli::lowering
