// What an op's derivative will read, asked for every recorded op with a node: so answers are kept.
#pragma once
#include "lazy/record/fragment_builder.h"
#include "lazy/trace/segment.h"

namespace lazuli::lazy {

// Of a segment of this trace whose reads and outputs are noted. Answers are kept by all that they depend on: the ops,
// how values lead from one to the next, element types, and shapes and attributes where a derivative's rule asks for
// them. What this gives stays, or is `own`. For who holds the recorder's lock.
const Saved& saved_by(const Trace& trace, const Segment& s, Saved& own);

}  // namespace lazuli::lazy
