// Images that are kept for a backward which comes in a later trace: of convolutions, and of what is computed beside
// them. A trace's results are row-major, and plans have these images channels-last wherever the libraries prefer it. So
// they would be turned when forward ends and turned back in backward. They are kept as they lie instead.
#pragma once
#include <vector>
#include "lazy/trace/trace.h"

namespace lazuli::lowering {
class Libraries;
}

namespace lazuli::lazy {

// Those of the live values that plans will have channels-last, as far as the trace tells. What is wrong here costs a
// copy.
std::vector<ValueId> images_to_keep(const Trace& trace, const std::vector<ValueId>& live,
                                    const lowering::Libraries& libraries);

// Gives an image that is kept so a buffer of its own, row-major, for who reads it outside of traces. Its memory is
// filled. Throws what an allocation throws.
void make_row_major(Cell& image);

}  // namespace lazuli::lazy
