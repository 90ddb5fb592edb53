#include "ir/body.h"
#include "ir/error.h"

namespace lazuli::ir {
namespace {

constexpr int kMaxOperands = 8;

// random_uniform's body is written for float32; a float64 result wants all of its bits.
Scalar widen_random(Scalar x, DType result) {
  ScalarNode n = (*x.graph)[x.id];
  if (n.prim != Prim::random || result != DType::F64) return x;
  n.dtype = DType::F64;
  return {x.graph, x.graph->add(n)};
}

bool applies_to_arguments(const ScalarGraph& g, uint16_t id, int arity) {
  const ScalarNode& n = g[id];
  if (info(n.prim).arity != arity || arity == 0) return false;
  for (int i = 0; i < arity; ++i) {
    const ScalarNode& arg = g[n.args[i]];
    if (arg.prim != Prim::argument || arg.index != i) return false;
  }
  return true;
}

std::array<Op, 64> rows_by_prim() {
  std::array<Op, 64> rows;
  rows.fill(kNoOp);
  for (size_t i = 0; i < kOpCount; ++i) {
    const OpInfo& row = kOps[i];
    if (!row.body || row.result == Result::Attr) continue;
    ScalarGraph g;
    Scalar args[kMaxOperands];
    // A select wants a condition first; every other primitive takes floats or, for bits, bool.
    for (DType t : {DType::F32, DType::Bool}) {
      for (int k = 0; k < row.body.arity; ++k)
        args[k] = argument(g, static_cast<uint16_t>(k), k == 0 && row.infer ? DType::Bool : t);
      Scalar y = row.body.call(args);
      Op& slot = rows[static_cast<size_t>(g[y.id].prim)];
      if (slot == kNoOp && applies_to_arguments(g, y.id, row.body.arity)) slot = static_cast<Op>(i);
    }
  }
  return rows;
}

}  // namespace

Scalar expand_body(Op op, std::span<const Scalar> operands, DType result) {
  const Body& body = info(op).body;
  LAZULI_CHECK(static_cast<int>(operands.size()) == body.arity, "an elementwise row's formula misses operands");
  return convert(widen_random(body.call(operands.data()), result), compute_type(result));
}

Program expand_body(Op op, std::span<const DType> operands, DType result) {
  Program p;
  Scalar args[kMaxOperands];
  for (size_t i = 0; i < operands.size(); ++i)
    args[i] = argument(p.graph, static_cast<uint16_t>(i), compute_type(operands[i]));
  p.result = expand_body(op, std::span<const Scalar>(args, operands.size()), result).id;
  return p;
}

Scalar derived_body(Op op, const Scalar* operands) {
  const OpInfo& row = info(op);
  const Body& primal = info(row.derivative_of).body;
  Scalar inputs[kMaxOperands], seed = operands[0];
  for (int i = 0; i < row.arity; ++i) {
    LAZULI_CHECK(row.roles[i].from != Role::Output, "a derived body cannot read a saved output");
    if (row.roles[i].from == Role::Cotangent) seed = operands[i];
    if (row.roles[i].from == Role::Input) inputs[row.roles[i].index] = operands[i];
  }
  return differentiate(primal.call(inputs), inputs[row.wrt[0]], seed);
}

Op row_of(Prim p) {
  static const auto rows = rows_by_prim();
  return rows[static_cast<size_t>(p)];
}

bool can_fail(Op op) {
  static const auto rows = [] {
    std::array<bool, kOpCount> fails{};
    for (size_t i = 0; i < kOpCount; ++i) {
      const Body& body = kOps[i].body;
      if (!body) continue;
      ScalarGraph g;
      Scalar args[kMaxOperands];
      for (int k = 0; k < body.arity; ++k) args[k] = argument(g, static_cast<uint16_t>(k), DType::I64);
      body.call(args);
      for (const ScalarNode& n : g.nodes()) fails[i] |= can_fail(n.prim, n.dtype);
    }
    return fails;
  }();
  return rows[static_cast<size_t>(op)];
}

Op derivative_row(Op op) {
  static const auto rows = [] {
    std::array<Op, kOpCount> by_primal;
    by_primal.fill(kNoOp);
    for (size_t i = 0; i < kOpCount; ++i)
      if (kOps[i].derivative_of != kNoOp) by_primal[static_cast<size_t>(kOps[i].derivative_of)] = static_cast<Op>(i);
    return by_primal;
  }();
  return rows[static_cast<size_t>(op)];
}

}  // namespace lazuli::ir
