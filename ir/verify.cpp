#include "ir/verify.h"
#include "ir/error.h"
#include "ir/infer.h"
#include "ir/print.h"

namespace lazuli::ir {
namespace {

void check_value(const Graph& graph, Value v, uint32_t before, const char* what) {
  LAZULI_CHECK(v.node < before, std::string(what) + " is defined later or not at all");
  LAZULI_CHECK(v.result < graph.nodes[v.node].types.size(), std::string(what) + " names a result that is not there");
}

// Attribute lists are as many as the row has names.
void check_attrs(const Node& n) {
  size_t lists = 0, at = 0;
  auto flat = n.attrs.flat();
  for (; at < flat.size(); ++lists) {
    LAZULI_CHECK(flat[at] >= 0, "an attribute has a negative length");
    at += static_cast<size_t>(flat[at]) + 1;
  }
  size_t names = 0;
  for (std::string_view key : info(n.op).attrs) names += !key.empty();
  LAZULI_CHECK(at == flat.size() && lists == names, std::string(name(n.op)) + " has the wrong attributes");
}

bool given_types(const Node& n) { return is_leaf(n.op) || info(n.op).kind == Kind::External; }

}  // namespace

void verify_node(const Graph& graph, uint32_t id) {
  const Node& n = graph.nodes[id];
  LAZULI_CHECK(static_cast<size_t>(n.op) < kOpCount, "a node has no op");
  check_attrs(n);
  std::vector<const Type*> operands;
  for (Value v : n.inputs) {
    if (v) check_value(graph, v, id, "an operand");
    operands.push_back(v ? &graph.type(v) : nullptr);
  }
  std::vector<Type> types(n.types.size());
  if (given_types(n)) types = n.types;
  infer(n.op, operands, n.attrs, types);
  for (size_t r = 0; r < types.size(); ++r)
    LAZULI_CHECK(types[r] == n.types[r], std::string(name(n.op)) + " has type " + to_string(n.types[r]) +
                                             " where its row infers " + to_string(types[r]));
  LAZULI_CHECK(n.line < graph.lines.size(), "a node names a line that is not there");
}

void verify(const Graph& graph) {
  for (uint32_t id = 0; id < graph.nodes.size(); ++id) {
    const Node& n = graph.nodes[id];
    verify_node(graph, id);
    if (n.op == Op::input) LAZULI_CHECK(n.attrs.number(0) < graph.input_count, "an input is out of range");
    if (n.op == Op::scalar) LAZULI_CHECK(n.attrs.number(0) < graph.scalar_count, "a scalar is out of range");
  }
  for (Value v : graph.outputs) check_value(graph, v, static_cast<uint32_t>(graph.nodes.size()), "an output");
  LAZULI_CHECK(graph.donated.empty() || graph.donated.size() == graph.input_count, "donations do not match inputs");
}

}  // namespace lazuli::ir
