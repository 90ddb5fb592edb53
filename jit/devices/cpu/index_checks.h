// Indices that a kernel loads are checked before it runs, so that nothing is written when one is wrong.
#pragma once
#include <span>
#include <string>
#include <vector>
#include "jit/executable.h"
#include "lowering/plan.h"

namespace lazuli::jit {

class IndexChecks {
 public:
  IndexChecks(const ir::Graph& graph, const lowering::PlanStep& step);
  // Throws ExecutionError, which names the row that indexes.
  void run(std::span<const Buffer> memory) const;

 private:
  const lowering::PlanStep& step_;
  std::vector<std::string> where_;  // per check
};

}  // namespace lazuli::jit
