#include "lazy/run/draws_apart.h"

#include <algorithm>
#include "ir/rounding.h"

namespace lazuli::lazy {

using ir::Op;

Origins origins_of(const ir::Graph& graph) {
  const size_t count = graph.nodes.size();
  Origins o{std::vector<bool>(count), std::vector<bool>(count)};
  for (uint32_t id = 0; id < count; ++id) {
    const ir::Node& n = graph.nodes[id];
    if (ir::is_leaf(n.op)) o.number[id] = n.op == Op::scalar || n.op == Op::constant || n.op == Op::iota;
    if (!ir::is_view(n.op) && !ir::is_elementwise(n.op)) continue;
    bool drawn = n.op == Op::random_uniform, known = true;
    for (ir::Value v : n.inputs) {
      drawn = drawn || (v && o.drawn[v.node]);
      known = known && v && (o.drawn[v.node] || o.number[v.node]);
    }
    o.drawn[id] = known && drawn;
    o.number[id] = known && !drawn;
  }
  return o;
}

std::optional<DrawsApart> draws_apart(const ir::Graph& graph, const std::vector<bool>& drawn) {
  bool transformed = false;
  for (uint32_t id = 0; id < graph.nodes.size() && !transformed; ++id)
    transformed = drawn[id] && !ir::is_rounded_once(graph.nodes[id].op);
  if (!transformed) return {};
  DrawsApart apart{{}, ir::cut(graph, graph.outputs, [&](uint32_t id) { return drawn[id]; })};
  std::vector<ir::Value> handed_over;
  for (ir::Value v : apart.rest.inputs)
    if (drawn[v.node]) handed_over.push_back(v);
  if (handed_over.empty()) return {};
  apart.draws = ir::cut(graph, handed_over, [](uint32_t) { return false; });
  return apart;
}

}  // namespace lazuli::lazy
