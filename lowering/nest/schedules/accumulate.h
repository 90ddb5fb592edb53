// A kernel that reduces rows and one that sums over the rows, made one: the backward of a normalization wants both of
// the same data, and so walks through memory once. Each chunk of rows leaves partial sums, which a second kernel
// combines as it does for any split reduction.
#pragma once
#include <optional>
#include "lowering/nest/schedules/split.h"

namespace lazuli::lowering {

// Loops of which neither reads what the other makes. Nothing where they do not walk the same points, or both read less
// than `least_shared` bytes; else the partial loops do all that `rows` does.
std::optional<SplitReduction> accumulate_columns(const Loops& rows, const Loops& columns, int threads,
                                                 ir::Size least_shared);

}  // namespace lazuli::lowering
