// From the recording to the frozen graph.
#pragma once
#include <span>
#include "ir/graph.h"
#include "lazy/trace.h"

namespace lazuli::lazy {

// The graph that computes the values `live`, in that order, with the trace's inputs and numbers as its own.
ir::Graph freeze(const Trace& trace, std::span<const ValueId> live);

}  // namespace lazuli::lazy
