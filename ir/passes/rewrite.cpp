#include "ir/passes/rewrite.h"
#include <bit>

namespace lazuli::ir {

Rewriter::Rewriter(const Graph& from) : from_(from), builder_(to_), map_(from.nodes.size()) {
  to_.nodes.reserve(from.nodes.size());
  builder_.reserve(from.nodes.size());
  to_.lines = from.lines;
  to_.input_count = from.input_count;
  to_.scalar_count = from.scalar_count;
  to_.donated = from.donated;
  to_.fleeting = from.fleeting;
}

std::span<const Value> Rewriter::operands(const Node& n) {
  operands_.clear();
  for (Value v : n.inputs) operands_.push_back((*this)[v]);
  return operands_;
}

void Rewriter::copy(uint32_t id) {
  const Node& n = from_.nodes[id];
  Node node{.op = n.op, .inputs = {}, .attrs = n.attrs, .types = n.types, .line = n.line};
  node.inputs.reserve(n.inputs.size());
  for (Value v : n.inputs) node.inputs.push_back((*this)[v]);
  Value first = builder_.append(std::move(node));
  map_[id].first = first;
  for (uint32_t r = 1; r < n.types.size(); ++r) map_[id].more.push_back(first.next(r));
}

Graph Rewriter::finish() {
  for (Value v : from_.outputs) to_.outputs.push_back((*this)[v]);
  return std::move(to_);
}

std::vector<uint32_t> count_uses(const Graph& graph) {
  std::vector<uint32_t> uses(graph.nodes.size(), 0);
  for (const Node& n : graph.nodes)
    for (Value v : n.inputs)
      if (v) ++uses[v.node];
  for (Value v : graph.outputs) ++uses[v.node];
  return uses;
}

const Node* constant_node(const Graph& graph, Value v) {
  const Node* n = &graph[v];
  while (n->op == Op::broadcast || n->op == Op::reshape) n = &graph[n->inputs[0]];
  return n->op == Op::constant ? n : nullptr;
}

bool constant_value(const Graph& graph, Value v, double& out) {
  const Node* n = constant_node(graph, v);
  if (!n) return false;
  if (n->attrs.size(0).is_symbolic()) return false;  // another number next time
  const int64_t bits = n->attrs.number(0);
  out = is_floating(n->types[0].dtype) ? std::bit_cast<double>(bits) : static_cast<double>(bits);
  return true;
}

}  // namespace lazuli::ir
