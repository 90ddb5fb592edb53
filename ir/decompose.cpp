// Expanding composites: through their own decomposition, or, for the derivative of another row, through reverse mode
// over that row's decomposition.
#include <limits>
#include "ir/autodiff.h"
#include "ir/body.h"
#include "ir/error.h"
#include "ir/infer.h"

namespace lazuli::ir {
namespace {

using Map = std::vector<std::vector<Value>>;

Value look_up(const Map& map, Value v) { return v ? map[v.node][v.result] : v; }

// Copies node `id` of `from` through `b`; its operands are in `map` already.
void replay_node(Builder& b, const Graph& from, uint32_t id, Map& map) {
  const Node& n = from.nodes[id];
  std::vector<Value> inputs;
  for (Value v : n.inputs) inputs.push_back(look_up(map, v));
  std::span<const Type> types;
  if (takes_types(n.op)) types = n.types;
  Value first = b.emit(n.op, inputs, n.attrs, types);
  for (uint32_t r = 0; r < n.types.size(); ++r) map[id].push_back(first.next(r));
}

// Inputs of `graph`, in order, stand for `values`; dead nodes are not copied.
void replay_live(Builder& b, const Graph& graph, std::span<const Value> values, std::span<const Value> wanted,
                 std::span<Value> results) {
  std::vector<bool> live(graph.nodes.size(), false);
  for (Value v : wanted)
    if (v) live[v.node] = true;
  for (uint32_t id = static_cast<uint32_t>(graph.nodes.size()); id-- > 0;)
    if (live[id])
      for (Value v : graph.nodes[id].inputs)
        if (v) live[v.node] = true;
  Map map(graph.nodes.size());
  for (uint32_t id = 0; id < graph.nodes.size(); ++id) {
    if (graph.nodes[id].op == Op::input)
      map[id] = {values[graph.nodes[id].attrs.number(0)]};
    else if (live[id])
      replay_node(b, graph, id, map);
  }
  for (size_t i = 0; i < wanted.size(); ++i) results[i] = look_up(map, wanted[i]);
}

void expand_row(Builder& b, const Application& a, std::span<Value> results);

// The row's decomposition as a graph of its own: inputs are the operands that are present.
Graph expand(const Builder& b, const Application& a) {
  Graph g;
  GraphBuilder gb(g);
  std::vector<Value> inputs, results(std::max(info(a.op).results, 1));
  for (Value v : a.inputs) inputs.push_back(v ? gb.input(b.type(v)) : v);
  expand_row(gb, {a.op, inputs, {}, a.attrs}, results);
  g.outputs = results;
  return g;
}

// A derivative row's operands, sorted into the application that it belongs to.
struct Primal {
  std::vector<Value> inputs, results, cotangents;
  uint32_t needs = 0;
};

Primal primal_of(Builder& b, const Application& a, std::span<const Type> results) {
  const OpInfo& row = info(a.op);
  const OpInfo& primal = info(row.derivative_of);
  Primal p;
  p.inputs.resize(primal.arity);
  p.results.resize(primal.results);
  p.cotangents.resize(primal.results);
  std::vector<bool> has_role(primal.arity, false);
  for (int i = 0; i < row.arity; ++i) {
    auto [from, index] = row.roles[i];
    if (from == Role::Cotangent) p.cotangents[index] = a.inputs[i];
    if (from == Role::Output) p.results[index] = a.inputs[i];
    if (from == Role::Input) p.inputs[index] = a.inputs[i], has_role[index] = true;
  }
  for (int r = 0; r < row.results; ++r) {
    int i = row.wrt[r];
    p.needs |= 1u << i;
    // An absent affine operand counts as ones, so that it has a cotangent.
    if (!p.inputs[i]) p.inputs[i] = b.full(results[r].shape, 1, results[r].dtype), has_role[i] = true;
  }
  // Operands that the derivative does not read; were one read after all, NaN would show it.
  Value x = p.inputs[row.wrt[0]];
  for (int i = 0; i < primal.arity; ++i)
    if (!has_role[i]) p.inputs[i] = b.constant(std::numeric_limits<double>::quiet_NaN(), compute_type(b.dtype(x)));
  return p;
}

void decompose_derivative(Builder& b, const Application& a, std::span<Value> results) {
  std::vector<const Type*> operands;
  for (Value v : a.inputs) operands.push_back(v ? &b.type(v) : nullptr);
  std::vector<Type> types(results.size());
  infer(a.op, operands, a.attrs, types);
  Primal p = primal_of(b, a, types);
  const OpInfo& row = info(a.op);
  std::vector<Value> out(p.inputs.size());
  derive_from_decomposition(b, {row.derivative_of, p.inputs, p.results, a.attrs}, p.cotangents, p.needs, out);
  for (size_t r = 0; r < results.size(); ++r) {
    Value g = out[row.wrt[r]];
    results[r] = g ? b.convert(g, types[r].dtype) : b.full(types[r].shape, 0, types[r].dtype);
  }
}

void expand_row(Builder& b, const Application& a, std::span<Value> results) {
  const OpInfo& row = info(a.op);
  if (row.decompose)
    row.decompose(b, a, results);
  else
    decompose_derivative(b, a, results);
}

}  // namespace

bool decompose(Builder& b, const Application& a, std::span<Value> results) {
  if (!is_composite(a.op)) return false;
  expand_row(b, a, results);
  return true;
}

void derive_from_decomposition(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t needs,
                               std::span<Value> out) {
  Graph forward = expand(b, a);
  Graph scratch;  // holds more than is live in the end; only the live part reaches `b`
  GraphBuilder sb(scratch);
  std::vector<Value> actual;
  auto bring = [&](Value v) { return v ? (actual.push_back(v), sb.input(b.type(v))) : v; };

  Map map(forward.nodes.size());
  for (size_t i = 0; i < forward.outputs.size() && i < a.results.size(); ++i) {
    Value v = forward.outputs[i];
    if (a.results[i] && forward[v].types.size() == 1) map[v.node] = {bring(a.results[i])};
  }
  std::vector<Value> inputs;
  for (Value v : a.inputs)
    if (v) inputs.push_back(bring(v));
  for (uint32_t id = 0; id < forward.nodes.size(); ++id) {
    const Node& n = forward.nodes[id];
    if (!map[id].empty()) continue;
    if (n.op == Op::input)
      map[id] = {inputs[n.attrs.number(0)]};
    else if (n.op == Op::detach)
      map[id] = {look_up(map, n.inputs[0])};
    else
      replay_node(sb, forward, id, map);
  }
  std::vector<Value> seeds, wrt;
  for (Value c : cotangents) seeds.push_back(bring(c));
  uint32_t position = 0;
  for (size_t i = 0; i < a.inputs.size(); ++i) {
    if (!a.inputs[i]) continue;
    if (needs >> i & 1) wrt.push_back({position, 0});
    ++position;
  }
  std::vector<Value> gradients = differentiate(sb, forward, map, forward.outputs, seeds, wrt);
  std::vector<Value> live(gradients.size());
  replay_live(b, scratch, actual, gradients, live);
  for (size_t i = 0, k = 0; i < a.inputs.size(); ++i)
    if (a.inputs[i] && (needs >> i & 1)) out[i] = live[k++];
}

}  // namespace lazuli::ir
