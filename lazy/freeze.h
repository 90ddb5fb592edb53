// From the recording to the frozen graph.
#pragma once
#include <span>
#include "ir/graph.h"
#include "lazy/trace.h"

namespace lazuli::lazy {

// An entry's attributes. Leaves carry their type behind their own (see Trace and Recording::emit), which is left out:
// graphs and builders are given types apart.
ir::Attrs unpack(std::span<const int64_t> flat, ir::Op op);

// The graph that computes the values `live`, in that order, with the trace's inputs and numbers as its own. `donated`: by
// input, whether a result may take over its memory; empty for none.
// `lines`: of the entries, where the trace itself has not kept them.
ir::Graph freeze(const Trace& trace, std::span<const ValueId> live, std::vector<bool> donated = {}, const std::vector<uint32_t>* lines = nullptr);

}  // namespace lazuli::lazy
