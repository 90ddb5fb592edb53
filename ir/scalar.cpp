#include "ir/scalar.h"
#include <bit>
#include "ir/error.h"

namespace lazuli::ir {
namespace {

constexpr PrimInfo kPrims[] = {
#define PRIM(name, arity, result) {#name, arity, PrimResult::result},
#include "ir/scalar.def"
#undef PRIM
};

bool same(const ScalarNode& a, const ScalarNode& b) {
  return a.prim == b.prim && a.dtype == b.dtype && a.args == b.args && a.index == b.index &&
         std::bit_cast<uint64_t>(a.value) == std::bit_cast<uint64_t>(b.value);
}

Scalar add(Scalar first, Prim p, DType dtype, std::array<uint16_t, 3> args) {
  return {first.graph, first.graph->add({.prim = p, .dtype = dtype, .args = args})};
}

bool is_literal(Scalar x) { return (*x.graph)[x.id].prim == Prim::literal; }

// A plain number takes the other operand's type; otherwise both become the common type.
void unify(Scalar& a, Scalar& b) {
  if (a.dtype() == b.dtype()) return;
  if (is_literal(b)) {
    b = like(a, (*b.graph)[b.id].value);
  } else if (is_literal(a)) {
    a = like(b, (*a.graph)[a.id].value);
  } else {
    DType common = promote_types(a.dtype(), b.dtype());
    a = convert(a, common);
    b = convert(b, common);
  }
}

bool rounds_to_integer(Prim p) { return p == Prim::floor || p == Prim::ceil || p == Prim::trunc || p == Prim::round; }

}  // namespace

const PrimInfo& info(Prim p) { return kPrims[static_cast<size_t>(p)]; }

uint16_t ScalarGraph::add(ScalarNode node) {
  // Bodies have tens of nodes: a scan is faster than a table.
  for (size_t i = 0; i < nodes_.size(); ++i)
    if (same(nodes_[i], node)) return static_cast<uint16_t>(i);
  LAZULI_CHECK(nodes_.size() < UINT16_MAX, "a scalar expression is too large");
  nodes_.push_back(node);
  return static_cast<uint16_t>(nodes_.size() - 1);
}

Scalar argument(ScalarGraph& g, uint16_t index, DType dtype) {
  return {&g, g.add({.prim = Prim::argument, .dtype = dtype, .index = index})};
}

Scalar literal(ScalarGraph& g, double value, DType dtype) {
  return {&g, g.add({.prim = Prim::literal, .dtype = dtype, .value = value})};
}

Scalar like(Scalar x, double value) { return literal(*x.graph, value, x.dtype()); }

Scalar convert(Scalar x, DType to) {
  if (x.dtype() == to) return x;
  return add(x, Prim::convert, to, {x.id});
}

Scalar apply(Prim p, Scalar a) {
  if (is_integral(a.dtype()) && rounds_to_integer(p)) return a;
  return add(a, p, a.dtype(), {a.id});
}

Scalar apply(Prim p, Scalar a, Scalar b) {
  unify(a, b);
  DType result = info(p).result == PrimResult::Bool ? DType::Bool : a.dtype();
  return add(a, p, result, {a.id, b.id});
}

Scalar apply(Prim p, Scalar a, Scalar b, Scalar c) {
  if (p == Prim::select) {
    a = convert(a, DType::Bool);
    unify(b, c);
    return add(a, p, b.dtype(), {a.id, b.id, c.id});
  }
  unify(a, b);
  unify(a, c);
  unify(a, b);  // c may have widened a
  return add(a, p, a.dtype(), {a.id, b.id, c.id});
}

Scalar random(Scalar seed, Scalar offset, Scalar index, DType dtype) {
  return add(seed, Prim::random, dtype, {seed.id, offset.id, index.id});
}

}  // namespace lazuli::ir
