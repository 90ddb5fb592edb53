// From the recording to the frozen graph.
#pragma once
#include <span>
#include "ir/graph.h"
#include "lazy/trace/trace.h"

namespace lazuli::lazy {

// The graph that computes the values `live`, in that order, with the trace's inputs and numbers as its own. `donated`:
// by input, whether a result may take over its memory; empty for none. `lines`: of the entries, where the trace itself
// has not kept them.
ir::Graph freeze(const Trace& trace, std::span<const ValueId> live, std::vector<bool> donated = {},
                 const std::vector<uint32_t>* lines = nullptr);

}  // namespace lazuli::lazy
