#include "ir/portion.h"

namespace lazuli::ir {

std::vector<bool> ancestors(const Graph& graph, std::span<const Value> wanted,
                            const std::function<bool(uint32_t)>& is_given) {
  std::vector<bool> is(graph.nodes.size());
  for (Value v : wanted) is[v.node] = true;
  for (uint32_t id = static_cast<uint32_t>(graph.nodes.size()); id-- > 0;)
    if (is[id] && !is_given(id))
      for (Value v : graph.nodes[id].inputs)
        if (v) is[v.node] = true;
  return is;
}

Portion cut(const Graph& graph, uint32_t begin, std::span<const Value> wanted) {
  return cut(graph, wanted, [=](uint32_t id) { return id < begin; });
}

Portion cut(const Graph& graph, std::span<const Value> wanted, const std::function<bool(uint32_t)>& is_given) {
  const std::vector<bool> is_needed = ancestors(graph, wanted, is_given);
  Portion part;
  part.graph.lines = graph.lines;
  std::vector<std::vector<Value>> to(graph.nodes.size());
  auto append = [&](uint32_t id, Node node) {
    part.graph.nodes.push_back(std::move(node));
    part.nodes.push_back(id);
    return static_cast<uint32_t>(part.graph.nodes.size() - 1);
  };
  for (uint32_t id = 0; id < graph.nodes.size(); ++id) {
    if (!is_needed[id]) continue;
    const Node& n = graph.nodes[id];
    to[id].resize(n.types.size());
    if (n.op == Op::input || (is_given(id) && !is_leaf(n.op))) {
      for (uint32_t r = 0; r < n.types.size(); ++r) {
        const auto position = static_cast<int64_t>(part.inputs.size());
        to[id][r] = {
            append(id,
                   {.op = Op::input, .inputs = {}, .attrs = Attrs{{position}}, .types = {n.types[r]}, .line = n.line}),
            0};
        part.inputs.push_back({id, r});
      }
      continue;
    }
    Node copy = n;
    for (Value& v : copy.inputs)
      if (v) v = to[v.node][v.result];
    if (n.op == Op::scalar) {
      copy.attrs = Attrs{{static_cast<int64_t>(part.scalars.size())}};
      part.scalars.push_back(static_cast<uint32_t>(n.attrs.number(0)));
    }
    const uint32_t made = append(id, std::move(copy));
    for (uint32_t r = 0; r < n.types.size(); ++r) to[id][r] = {made, r};
  }
  for (Value v : wanted) part.graph.outputs.push_back(to[v.node][v.result]);
  part.graph.input_count = static_cast<uint32_t>(part.inputs.size());
  part.graph.scalar_count = static_cast<uint32_t>(part.scalars.size());
  return part;
}

}  // namespace lazuli::ir
