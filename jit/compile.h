// Compiling in two: what may be done for sizes that are not known yet (ir/size.h), and the rest.
#pragma once
#include "jit/dump.h"
#include "jit/executable.h"
#include "lowering/plan.h"

namespace lazuli::jit {

// `graph` becomes the simplified one that the draft is of. Adds to `stats`.
lowering::Plan draft(ir::Graph& graph, const CompileOptions& options, Dump& dump, CompileStats& stats);
std::unique_ptr<Executable> finish(ir::Graph graph, lowering::Plan draft, const CompileOptions& options, Dump& dump,
                                   CompileStats stats);

}  // namespace lazuli::jit
