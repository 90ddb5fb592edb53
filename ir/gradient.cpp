#include "ir/gradient.h"
#include "ir/builder.h"

namespace lazuli::ir {

Graph with_gradients(const Graph& graph) {
  Graph out;
  out.lines = graph.lines;
  out.input_count = graph.input_count;
  out.scalar_count = graph.scalar_count;
  out.donated = graph.donated;
  out.fleeting = graph.fleeting;
  GraphBuilder b(out);
  std::vector<std::vector<Value>> map;
  std::vector<Value> wrt;
  for (uint32_t id = 0; id < graph.nodes.size(); ++id) {
    Node n = graph.nodes[id];
    if (n.op == Op::input && is_floating(n.types[0].dtype)) wrt.push_back({id, 0});
    for (Value& v : n.inputs)
      if (v) v = map[v.node][v.result];
    auto results = static_cast<uint32_t>(n.types.size());
    Value first = b.append(std::move(n));
    map.emplace_back();
    for (uint32_t r = 0; r < results; ++r) map.back().push_back({first.node, r});
  }
  std::vector<Value> seeds;
  for (Value v : graph.outputs) {
    out.outputs.push_back(map[v.node][v.result]);
    const Type type = graph.type(v);
    seeds.push_back(is_floating(type.dtype) ? b.full(type.shape, 1, type.dtype) : Value{});
  }
  auto gradients = differentiate(b, graph, map, graph.outputs, seeds, wrt);
  for (size_t i = 0; i < wrt.size(); ++i) {
    const Type type = graph.type(wrt[i]);
    out.outputs.push_back(gradients[i] ? gradients[i] : b.full(type.shape, 0, type.dtype));
  }
  return out;
}

}  // namespace lazuli::ir
