#include "jit/failures.h"
#include "jit/executor.h"

namespace lazuli::jit {
namespace {

// torch's words: those of integer division, of embedding, of losses by class, and of indexing.
std::string words(const ir::Graph& graph, const lowering::Check& check) {
  if (check.kind == lowering::Check::ZeroDivisor) return "ZeroDivisionError";
  const ir::Node& node = graph[check.by];
  if (node.op == ir::Op::check_index) return "Target is out of bounds.";
  if (node.op != ir::Op::index_position) return "index out of range in self";
  ir::Value size = node.inputs[1];
  while (ir::is_view(graph[size].op)) size = graph[size].inputs[0];
  const std::string text = "index is out of bounds for dimension";
  return graph[size].op == ir::Op::constant ? text + " with size " + std::to_string(graph[size].attrs.number(0)) : text;
}

}  // namespace

std::vector<CheckFailure> check_failures(const ir::Graph& graph, const lowering::PlanStep& step) {
  std::vector<CheckFailure> out;
  for (const lowering::Check& c : step.loops.checks) {
    const bool index_error = c.kind != lowering::Check::ZeroDivisor && graph[c.by].op != ir::Op::gather;
    out.push_back({where(graph, c.by.node) + ": " + words(graph, c), index_error});
  }
  return out;
}

}  // namespace lazuli::jit
