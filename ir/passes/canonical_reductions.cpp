// Reductions in one form: they keep the folded dimensions with size 1 (a reshape drops them where the graph did), so
// that a cluster stays at one rank; dimensions of size 1 are not folded; a reduction of a reduction of its kind is one.
#include "ir/passes/pass.h"
#include "ir/passes/rewrite.h"

namespace lazuli::ir::passes {
namespace {

bool gives_position(const Node& n) {
  Combine c = info(n.op).combine;
  return c == Combine::ArgMax || c == Combine::ArgMin;
}

Value reduce(Rewriter& r, const Node& n, Value x, const Dims& dims) {
  return r.builder().emit(n.op, {x}, Attrs().add(dims).add(1));
}

// A sum begins with 0, which makes 0 of the only element that a zero's sign would show on.
bool adds_zero(const Node& n) { return (n.op == Op::sum || n.op == Op::mean) && is_floating(n.types[0].dtype); }

// Any and all of numbers say bool even where there is nothing to fold.
bool changes_type(const Node& n, const Type& x) { return n.types[0].dtype != x.dtype; }

Value fold_fewer_dims(Rewriter& r, const Node& n, Value x) {
  const Type& type = r.to().type(x);
  Dims dims;
  for (Size d : n.attrs.list(0))
    if (!type.shape[d].is_surely_one() || gives_position(n)) dims.push_back(d);
  if (dims.size() == n.attrs.list(0).size()) return {};
  if (!dims.empty()) return reduce(r, n, x, dims);
  if (changes_type(n, type)) return {};
  return adds_zero(n) ? r.builder().add(x, 0.0) : x;
}

// Both keep dimensions, so they fold the union of theirs.
Value merge(Rewriter& r, const Node& n, Value x) {
  const Node& inner = r.to()[x];
  if (inner.op != n.op || gives_position(n)) return {};
  Dims dims(inner.attrs.list(0));
  dims.append(n.attrs.list(0));
  std::sort(dims.begin(), dims.end());
  dims.resize(static_cast<size_t>(std::unique(dims.begin(), dims.end()) - dims.begin()));
  return reduce(r, n, inner.inputs[0], dims);
}

}  // namespace

Graph canonical_reductions(const Graph& graph) {
  return rewrite(graph, [](Rewriter& r, uint32_t id) {
    const Node& n = r.from().nodes[id];
    if (!is_reduction(n.op)) return Value{};
    Value x = r[n.inputs[0]];
    Value v = fold_fewer_dims(r, n, x);
    if (!v) v = merge(r, n, x);
    if (!v && n.attrs.number(1)) return Value{};
    if (!v) v = reduce(r, n, x, Dims(n.attrs.list(0)));
    return r.builder().reshape(v, n.types[0].shape);
  });
}

}  // namespace lazuli::ir::passes
