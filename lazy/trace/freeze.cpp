#include "lazy/trace/freeze.h"

#include "lazy/support/source.h"

namespace lazuli::lazy {

ir::Graph freeze(const Trace& trace, std::span<const ValueId> live, std::vector<bool> donated,
                 const std::vector<uint32_t>* lines) {
  if (!lines) lines = &trace.lines;
  ir::Graph graph;
  std::vector<ir::Value> values(trace.value_count());
  std::vector<uint32_t> line_of;  // interned line -> index in graph.lines
  auto line = [&](size_t entry) -> uint32_t {
    uint32_t l = entry < lines->size() ? (*lines)[entry] : 0;
    if (l == 0) return 0;
    if (line_of.size() <= l) line_of.resize(l + 1, 0);
    if (line_of[l] == 0) {
      line_of[l] = static_cast<uint32_t>(graph.lines.size());
      graph.lines.push_back(line_text(l));
    }
    return line_of[l];
  };
  graph.nodes.reserve(trace.size());
  for (size_t i = 0; i < trace.size(); ++i) {
    const Entry& e = trace.entries()[i];
    ir::Node node;
    node.op = e.op;
    for (ValueId v : trace.operands(e)) node.inputs.push_back(v == kAbsent ? ir::Value{} : values[v]);
    node.attrs = ir::unpack(trace.attrs(e), e.op);
    for (uint16_t r = 0; r < e.results; ++r) {
      node.types.push_back(trace.cell(e.first_result + r)->type);
      values[e.first_result + r] = {static_cast<uint32_t>(graph.nodes.size()), r};
    }
    node.line = line(i);
    graph.nodes.push_back(std::move(node));
  }
  for (ValueId v : live) graph.outputs.push_back(values[v]);
  graph.donated = std::move(donated);
  graph.input_count = static_cast<uint32_t>(trace.inputs().size());
  graph.scalar_count = static_cast<uint32_t>(trace.scalars().size());
  return graph;
}

}  // namespace lazuli::lazy
