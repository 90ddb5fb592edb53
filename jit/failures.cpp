#include "jit/failures.h"
#include "ir/requirement.h"
#include "jit/run/executor.h"

namespace lazuli::jit {
namespace {

const char* words(ir::Requirement requirement) {
  switch (requirement) {
    case ir::Requirement::Deviation:
      return "normal expects all elements of std >= 0.0";
    case ir::Requirement::Probability:
      return "Expected p_in >= 0 && p_in <= 1 to be true, but got false.";
    case ir::Requirement::Weights:
      return "probability tensor contains either `inf`, `nan` or element < 0";
    case ir::Requirement::SomeWeight:
      return "invalid multinomial distribution (sum of probabilities <= 0)";
    case ir::Requirement::Class:
      return "Class values must be non-negative.";
    case ir::Requirement::KnownClass:
      return "Class values must be smaller than num_classes.";
    case ir::Requirement::Quantile:
      return "quantile() q values must be in the range [0, 1]";
    case ir::Requirement::Input:
      return "all elements of input should be between 0 and 1";
    case ir::Requirement::Target:
      return "all elements of target should be between 0 and 1";
  }
  return "";
}

// Torch has a kernel of its own for the second dimension, with an error of its own.
bool selects_columns(const ir::Node& node) { return node.op == ir::Op::index_select && node.attrs.number(0) == 1; }

// torch's words: those of integer division, of embedding, of losses by class, and of indexing.
std::string words(const ir::Graph& graph, const lowering::Check& check) {
  if (check.kind == lowering::Check::ZeroDivisor) return "ZeroDivisionError";
  const ir::Node& node = graph[check.by];
  if (node.op == ir::Op::require) return words(static_cast<ir::Requirement>(node.attrs.number(0)));
  if (node.op == ir::Op::check_index) return "Target is out of bounds.";
  if (selects_columns(node)) return "INDICES element is out of DATA bounds";
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
    const ir::Op op = graph[c.by].op;
    const bool index_error = c.kind != lowering::Check::ZeroDivisor && op != ir::Op::gather && op != ir::Op::require &&
                             !selects_columns(graph[c.by]);
    out.push_back({where(graph, c.by.node) + ": " + words(graph, c), index_error, c.by.node});
  }
  return out;
}

}  // namespace lazuli::jit
