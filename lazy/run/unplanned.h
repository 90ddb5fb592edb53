// A graph that runs one op at a time with torch's own kernels (but for library_rows.h), as eager would: nothing has to
// be planned or compiled, which is what a graph costs that was never there before and may never come again.
#pragma once
#include <memory>
#include "jit/run/executable.h"

namespace lazuli::lazy {

// Where torch's kernels fail or have no result, a plan is made after all, and says what is wrong: so errors, and what
// of the graph is computed in spite of them, are those of the plan. Random numbers are ours: what only transforms them
// has a plan (draws_apart.h). On a CPU only. Null for a graph whose results should be the same bits later, when they
// are a plan's: those of float64. Null also where torch's numbers hang on how its operands lie.
std::unique_ptr<jit::Executable> unplanned(ir::Graph graph, const jit::CompileOptions& options);

}  // namespace lazuli::lazy
