// What a step has stored against what it should have.
#pragma once
#include <string>
#include <vector>
#include "lowering/plan/plan.h"

namespace lazuli::testing {

// Empty, or what is wrong with the memory of a stored access. `tolerance` is relative to the larger of the number and
// 1; 0: the same bits, but for NaNs. `got` is empty where memory around it was written.
std::string compare_access(const lowering::PlanStep& step, size_t access, const std::vector<char>& got,
                           const std::vector<char>& want, double tolerance);

// Empty, or that one status word tells of a failed check and the other does not: of several failed checks either may be
// told.
std::string compare_status(const std::vector<char>& got, const std::vector<char>& want);

}  // namespace lazuli::testing
