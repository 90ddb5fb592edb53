// What a failed check of a kernel says to the user.
#pragma once
#include <string>
#include <vector>
#include "lowering/plan/plan.h"

namespace lazuli::jit {

struct CheckFailure {
  std::string text;          // "index_position (model.py:3): index is out of bounds for dimension with size 4"
  bool index_error = false;  // torch's error is an IndexError
  uint32_t node = 0;         // that checks
};

// By number of the check.
std::vector<CheckFailure> check_failures(const ir::Graph& graph, const lowering::PlanStep& step);

}  // namespace lazuli::jit
