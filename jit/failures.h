// What a failed check of a kernel says to the user.
#pragma once
#include <string>
#include <vector>
#include "lowering/plan.h"

namespace lazuli::jit {

// By number of the check: "index_position (model.py:3): index is out of bounds for dimension with size 4".
std::vector<std::string> failure_texts(const ir::Graph& graph, const lowering::PlanStep& step);

}  // namespace lazuli::jit
