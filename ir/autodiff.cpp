// Reverse mode over a graph: cotangents flow from outputs to operands, one node's rule at a time (Griewank and
// Walther, Evaluating Derivatives, chapter 3).
#include "ir/autodiff.h"

#include <array>
#include <unordered_map>
#include "ir/body.h"
#include "ir/error.h"

namespace lazuli::ir {
namespace {

bool flows_into(const Builder& b, Value v) { return v && is_floating(b.dtype(v)); }

// Through the row that is the derivative of this one; false where that row does not fit: other cotangents than it
// reads are present, or others are wanted than it gives.
bool apply_derivative_row(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t needs,
                          std::span<Value> out) {
  Op op = derivative_row(a.op);
  if (op == kNoOp) return false;
  const OpInfo& row = info(op);
  uint32_t gives = 0, reads = 0;
  for (int r = 0; r < row.results; ++r) gives |= 1u << row.wrt[r];
  if (needs & ~gives) return false;
  std::vector<Value> operands;
  for (int i = 0; i < row.arity; ++i) {
    Role role = row.roles[i];
    if (role.from == Role::Cotangent) {
      reads |= 1u << role.index;
      operands.push_back(cotangents[role.index]);
    } else {
      auto from = role.from == Role::Input ? a.inputs : a.results;
      if (role.index >= from.size()) return false;
      operands.push_back(from[role.index]);
    }
  }
  for (size_t i = 0; i < cotangents.size(); ++i)
    if (static_cast<bool>(cotangents[i]) != static_cast<bool>(reads >> i & 1)) return false;
  Value first = b.emit(op, operands, a.attrs);
  for (int r = 0; r < row.results; ++r)
    if (needs >> row.wrt[r] & 1) {
      Value g = first.next(static_cast<uint32_t>(r));
      out[row.wrt[r]] = fit(b, g, a.inputs[row.wrt[r]]);
    }
  return true;
}

// The derivatives of a row's formula by the operands of which they are wanted, for a seed that is the argument after
// them.
struct BodyDerivative {
  ScalarGraph graph;
  uint16_t result = 0;
  std::vector<uint16_t> by_operand;
};

BodyDerivative derive_body(Op op, std::span<const DType> operands, DType cotangent, uint32_t needs) {
  BodyDerivative out;
  std::vector<Scalar> args;
  for (DType t : operands) args.push_back(argument(out.graph, static_cast<uint16_t>(args.size()), t));
  Scalar seed = argument(out.graph, static_cast<uint16_t>(args.size()), cotangent);
  Scalar y = expand_body(op, args, cotangent);
  out.result = y.id;
  out.by_operand.resize(args.size());
  for (size_t k = 0; k < args.size(); ++k)
    if (needs >> k & 1) out.by_operand[k] = differentiate(y, args[k], seed).id;
  return out;
}

constexpr size_t kMostOperands = 8;

// The same, kept: a backward asks for few, again and again.
const BodyDerivative& body_derivative(Op op, std::span<const DType> operands, DType cotangent, uint32_t needs) {
  thread_local std::unordered_map<uint64_t, BodyDerivative> known;
  static_assert(static_cast<int>(DType::Opaque) < 16);
  uint64_t key = static_cast<uint64_t>(op) << 8 | needs;
  key = key << 4 | operands.size();
  key = key << 4 | static_cast<uint64_t>(cotangent);
  for (DType t : operands) key = key << 4 | static_cast<uint64_t>(t);
  auto [it, fresh] = known.try_emplace(key);
  if (fresh) it->second = derive_body(op, operands, cotangent, needs);
  return it->second;
}

// From the row's formula, in the compute type.
void differentiate_body(Builder& b, const Application& a, Value cotangent, uint32_t needs, std::span<Value> out) {
  const size_t count = a.inputs.size();
  LAZULI_CHECK(count <= kMostOperands, std::string(info(a.op).name) + " has too many operands to be differentiated");
  std::array<DType, kMostOperands> types;
  std::array<Value, kMostOperands + 1> values;
  for (size_t k = 0; k < count; ++k) {
    types[k] = compute_type(b.dtype(a.inputs[k]));
    values[k] = a.inputs[k];
  }
  values[count] = cotangent;
  const BodyDerivative& d = body_derivative(a.op, {types.data(), count}, compute_type(b.dtype(cotangent)), needs);
  std::vector<Value> known(d.graph.size());
  if (info(a.op).saves & SavesOutputs && !a.results.empty() && a.results[0]) known[d.result] = a.results[0];
  for (size_t k = 0; k < count; ++k) {
    if (!(needs >> k & 1) || d.graph[d.by_operand[k]].prim == Prim::literal) continue;  // nothing flows
    Value v = emit_formula(b, d.graph, d.by_operand[k], {values.data(), count + 1}, known);
    out[k] = fit(b, b.broadcast(v, b.shape(cotangent)), a.inputs[k]);
  }
}

struct Tape {
  Builder& b;
  const Graph& graph;
  const std::vector<std::vector<Value>>& map;
  std::vector<std::vector<Value>> cotangents;
  std::vector<bool> active;  // depends on a value of `wrt`

  Value mapped(Value v) const { return v ? map[v.node][v.result] : v; }

  void add(Value v, Value cotangent) {
    if (!cotangent) return;
    auto& at = cotangents[v.node];
    if (at.empty()) at.resize(graph.nodes[v.node].types.size());
    at[v.result] = at[v.result] ? b.add(at[v.result], cotangent) : cotangent;
  }

  void pull(uint32_t id) {
    const Node& n = graph.nodes[id];
    uint32_t needs = 0;
    std::vector<Value> inputs;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      Value v = n.inputs[i];
      inputs.push_back(mapped(v));
      if (v && active[v.node] && is_floating(graph.type(v).dtype)) needs |= 1u << i;
    }
    if (!needs) return;
    LAZULI_CHECK(n.inputs.size() <= 32, "a differentiable node has too many operands");
    std::vector<Value> out(n.inputs.size());
    vjp(b, {n.op, inputs, map[id], n.attrs}, cotangents[id], needs, out);
    for (size_t i = 0; i < out.size(); ++i)
      if (needs >> i & 1) add(n.inputs[i], out[i]);
  }
};

}  // namespace

Value fit(Builder& b, Value cotangent, Value operand) {
  return cotangent ? b.convert(b.sum_to(cotangent, b.shape(operand)), b.dtype(operand)) : cotangent;
}

Value emit_formula(Builder& b, const ScalarGraph& g, uint16_t id, std::span<const Value> arguments,
                   std::span<Value> known) {
  const ScalarNode& n = g[id];
  if (known[id]) return known[id] = b.convert(known[id], n.dtype);
  Value v;
  if (n.prim == Prim::argument) {
    v = b.convert(arguments[n.index], n.dtype);
  } else if (n.prim == Prim::literal) {
    v = b.constant(n.value, n.dtype);
  } else {
    Value operands[3];
    int arity = info(n.prim).arity;
    for (int i = 0; i < arity; ++i) operands[i] = emit_formula(b, g, n.args[i], arguments, known);
    if (n.prim == Prim::convert) {
      v = b.convert(operands[0], n.dtype);
    } else {
      Op op = row_of(n.prim);
      LAZULI_CHECK(op != kNoOp, std::string("no row for the primitive ") + info(n.prim).name);
      v = b.emit(op, std::span<const Value>(operands, arity), {});
    }
  }
  known[id] = v;
  return v;
}

void vjp(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t needs, std::span<Value> out) {
  const OpInfo& row = info(a.op);
  for (size_t i = 0; i < a.inputs.size() && i < 32; ++i)
    if (!flows_into(b, a.inputs[i])) needs &= ~(1u << i);
  bool any = std::any_of(cotangents.begin(), cotangents.end(), [](Value v) { return static_cast<bool>(v); });
  if (!needs || !any) return;
  if (row.vjp) return row.vjp(b, a, cotangents, needs, out);
  if (apply_derivative_row(b, a, cotangents, needs, out)) return;
  if (row.kind == Kind::Elementwise) return differentiate_body(b, a, cotangents[0], needs, out);
  LAZULI_CHECK(row.decompose || row.derivative_of != kNoOp, std::string(row.name) + " has no derivative");
  derive_from_decomposition(b, a, cotangents, needs, out);
}

std::vector<Value> differentiate(Builder& b, const Graph& graph, const std::vector<std::vector<Value>>& map,
                                 std::span<const Value> outputs, std::span<const Value> cotangents,
                                 std::span<const Value> wrt) {
  Tape tape{b, graph, map, std::vector<std::vector<Value>>(graph.nodes.size()),
            std::vector<bool>(graph.nodes.size(), false)};
  for (Value v : wrt) tape.active[v.node] = true;
  for (uint32_t id = 0; id < graph.nodes.size(); ++id)
    for (Value v : graph.nodes[id].inputs)
      if (v && tape.active[v.node]) tape.active[id] = true;
  for (size_t i = 0; i < outputs.size(); ++i) tape.add(outputs[i], cotangents[i]);
  for (uint32_t id = static_cast<uint32_t>(graph.nodes.size()); id-- > 0;)
    if (tape.active[id] && !tape.cotangents[id].empty()) tape.pull(id);
  std::vector<Value> result;
  for (Value v : wrt) {
    const auto& at = tape.cotangents[v.node];
    result.push_back(at.empty() ? Value{} : at[v.result]);
  }
  return result;
}

}  // namespace lazuli::ir
