// Graphs and drafts of plans whose sizes have expressions (ir/size_table.h), with numbers put in.
#pragma once
#include <span>
#include "ir/size_table.h"
#include "lowering/plan.h"

namespace lazuli::lowering {

// `values`: by expression of the table that they were made with.
ir::Graph with_numbers(const ir::Graph& graph, std::span<const int64_t> values);
Plan with_numbers(const Plan& draft, std::span<const int64_t> values);

}  // namespace lazuli::lowering
