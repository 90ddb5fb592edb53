#include "ir/print.h"
#include <bit>
#include <charconv>

namespace lazuli::ir {
namespace {

// Results are numbered through the graph.
std::vector<uint32_t> first_results(const Graph& graph) {
  std::vector<uint32_t> first;
  uint32_t next = 0;
  for (const Node& n : graph.nodes) {
    first.push_back(next);
    next += static_cast<uint32_t>(n.types.size());
  }
  return first;
}

std::string value_text(const std::vector<uint32_t>& first, Value v) {
  return v ? "%" + std::to_string(first[v.node] + v.result) : "_";
}

std::string number_text(int64_t bits, DType dtype) {
  if (!is_floating(dtype)) return std::to_string(bits);
  char text[32];
  auto end = std::to_chars(text, text + sizeof text, std::bit_cast<double>(bits)).ptr;
  return {text, end};
}

std::string attr_text(const Node& n, size_t i) {
  std::string_view key = info(n.op).attrs[i];
  auto list = n.attrs.list(i);
  std::string s = std::string(key) + '=';
  if (key == "dtype") return s + std::string(name(static_cast<DType>(n.attrs.number(i))));
  if (n.op == Op::constant) return s + number_text(list[0], n.types[0].dtype);
  if (list.size() == 1) return s + std::to_string(list[0]);
  s += '[';
  for (size_t k = 0; k < list.size(); ++k) s += (k ? "," : "") + std::to_string(list[k]);
  return s + ']';
}

std::string node_text(const Graph& graph, const std::vector<uint32_t>& first, uint32_t id) {
  const Node& n = graph.nodes[id];
  std::string s;
  for (uint32_t r = 0; r < n.types.size(); ++r)
    s += (r ? ", " : "") + value_text(first, {id, r}) + " : " + to_string(n.types[r]);
  s += " = " + std::string(name(n.op));
  for (size_t i = 0; i < n.inputs.size(); ++i) s += (i ? ", " : " ") + value_text(first, n.inputs[i]);
  const auto& names = info(n.op).attrs;
  for (size_t i = 0; i < names.size() && !names[i].empty(); ++i) s += (i ? " " : " [") + attr_text(n, i);
  if (!names[0].empty()) s += ']';
  if (n.line) s += " ; " + graph.lines[n.line];
  return s;
}

}  // namespace

std::string print_node(const Graph& graph, uint32_t node) { return node_text(graph, first_results(graph), node); }

std::string print(const Graph& graph) {
  auto first = first_results(graph);
  std::string s;
  for (uint32_t id = 0; id < graph.nodes.size(); ++id) s += node_text(graph, first, id) + '\n';
  bool any = false;
  for (size_t i = 0; i < graph.donated.size(); ++i)
    if (graph.donated[i]) {
      s += (any ? ", " : "donated ") + std::to_string(i);
      any = true;
    }
  if (any) s += '\n';
  s += "return";
  for (size_t i = 0; i < graph.outputs.size(); ++i) s += (i ? ", " : " ") + value_text(first, graph.outputs[i]);
  return s + '\n';
}

}  // namespace lazuli::ir
