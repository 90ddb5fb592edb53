#include "lowering/graph/early_operands.h"
#include <algorithm>
#include "ir/body.h"
#include "ir/passes/rewrite.h"
#include "lowering/fusion/epilogue.h"
#include "lowering/fusion/library_calls.h"

namespace lazuli::lowering {
namespace {

// By node: whether it is a leaf, or a small value that is made of leaves element by element. What others see stays
// where it is: it may take over the memory of an input that is read until then.
std::vector<bool> find_simple(const ir::Graph& graph) {
  std::vector<bool> simple(graph.nodes.size()), seen(graph.nodes.size());
  for (ir::Value v : graph.outputs) seen[v.node] = true;
  for (uint32_t id = 0; id < graph.nodes.size(); ++id) {
    const ir::Node& node = graph.nodes[id];
    if (ir::is_leaf(node.op)) {
      simple[id] = true;
      continue;
    }
    if (seen[id] || (!ir::is_elementwise(node.op) && !ir::is_view(node.op))) continue;
    if (ir::can_fail(node.op)) continue;  // errors keep their order
    const ir::Type& type = node.types[0];
    const ir::Size numel = type.numel();
    simple[id] = ir::is_floating(type.dtype) && !numel.is_symbolic() && numel <= kSmallOperand &&
                 std::ranges::all_of(node.inputs, [&](ir::Value x) { return !x || simple[x.node]; });
  }
  return simple;
}

// Of these, what a larger value is scaled or shifted by, and what that is made of.
std::vector<bool> find_early(const ir::Graph& graph) {
  const std::vector<bool> simple = find_simple(graph);
  std::vector<bool> early(graph.nodes.size());
  for (uint32_t id = static_cast<uint32_t>(graph.nodes.size()); id-- > 0;) {
    const ir::Node& node = graph.nodes[id];
    const bool scales = node.op == ir::Op::add || node.op == ir::Op::mul || node.op == ir::Op::multiply_add;
    if (!early[id] && (simple[id] || !scales)) continue;
    for (ir::Value x : node.inputs)
      if (x && simple[x.node] && (early[id] || !ir::is_leaf(graph[x].op)))
        early[x.node] = early[x.node] || early[id] || kTimesSmaller * graph.type(x).numel() <= node.types[0].numel();
  }
  return early;
}

}  // namespace

bool takes_epilogue(const ir::Node& node, const Libraries& libraries) {
  return ir::is_contraction(node.op) && libraries.takes(node, {});
}

ir::Graph early_operands(const ir::Graph& graph, const Libraries&) {
  const std::vector<bool> early = find_early(graph);
  ir::Rewriter r(graph);
  for (const bool now : {true, false})
    for (uint32_t id = 0; id < graph.nodes.size(); ++id)
      if (early[id] == now) {
        r.begin(id);
        r.copy(id);
      }
  return r.finish();
}

}  // namespace lazuli::lowering
