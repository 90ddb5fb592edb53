// The gradient of a tensor of which parts were read is a sum of values that are zero but for a part each. Where the
// parts lie apart, the sum is their concatenation: each element is written once, and no zero is. A window written into
// zeros becomes paddings for that, each of one dimension; every second (third, ...) element is a part of the dimension
// split in two.
#include "ir/passes/grid.h"
#include "ir/passes/pass.h"
#include "ir/passes/rewrite.h"

namespace lazuli::ir::passes {
namespace {

bool is_zero(const Graph& g, Value v) {
  double number;
  return constant_value(g, v, number) && number == 0;
}

// Splits dimensions of the grid that the window walks from end to end in steps.
GridWindow split_steps(const GridWindow& w) {
  GridWindow out;
  Dims moved(w.grid.size(), 0);
  for (size_t d = 0; d < w.grid.size(); ++d) {
    moved[d] = static_cast<int64_t>(out.grid.size());
    const Size step = w.steps[d];
    const bool splits = step > 1 && w.sizes[d] * step == w.grid[d] && w.starts[d] < step;
    out.grid.push_back(splits ? w.sizes[d] : w.grid[d]);
    out.starts.push_back(splits ? Size(0) : w.starts[d]);
    out.sizes.push_back(w.sizes[d]);
    out.steps.push_back(splits ? Size(1) : step);
    if (!splits) continue;
    out.grid.push_back(step);
    out.starts.push_back(w.starts[d]);
    out.sizes.push_back(1);
    out.steps.push_back(1);
  }
  for (Size axis : w.order) out.order.push_back(moved[axis]);
  return out;
}

Value pad_one(Builder& b, Value x, size_t d, Size low, Size high) {
  Dims before(b.shape(x).size(), 0), after = before;
  before[d] = low;
  after[d] = high;
  return b.emit(Op::pad, {x, b.constant(0, b.dtype(x))}, Attrs().add(before).add(after));
}

// Zeros of this shape with `src` in a window; none where the window leaves elements out between its own.
Value place(Builder& b, Value src, SizeSpan shape, const Attrs& attrs) {
  auto found = find_grid(shape, b.shape(src), attrs.list(0), attrs.size(1));
  if (!found || !std::ranges::equal(found->unit, b.shape(src))) return {};
  const GridWindow w = split_steps(*found);
  if (std::ranges::any_of(w.steps, [](Size s) { return s != 1; })) return {};
  Value x = b.reshape(permute_to_grid(b, src, w), w.sizes);
  for (size_t d = w.grid.size(); d-- > 0;)
    if (w.sizes[d] < w.grid[d]) x = pad_one(b, x, d, w.starts[d], w.grid[d] - w.starts[d] - w.sizes[d]);
  return b.reshape(x, shape);
}

// A value that is zero but for these parts of one dimension, in order.
struct Part {
  Size begin, end;
  Value value;
};
struct Parts {
  size_t dim = 0;
  Dims shape;
  std::vector<Part> parts;
  bool gaps = true;
};

bool parts_of(const Graph& g, Value v, Parts& out) {
  const Node& n = g[v];
  out.shape = g.type(v).shape;
  if (n.op == Op::pad && is_zero(g, n.inputs[1])) {
    const auto low = n.attrs.list(0), high = n.attrs.list(1);
    int padded = 0;
    for (size_t d = 0; d < low.size(); ++d) {
      if (low[d] < 0 || high[d] < 0) return false;
      if (low[d] || high[d]) out.dim = d, ++padded;
    }
    if (padded != 1) return false;
    out.parts = {{low[out.dim], out.shape[out.dim] - high[out.dim], n.inputs[0]}};
    return true;
  }
  if (n.op != Op::cat) return false;
  out.dim = static_cast<size_t>(n.attrs.number(0));
  Size at = 0;
  for (Value x : n.inputs) {
    const Size end = at + g.type(x).shape[out.dim];
    if (!is_zero(g, x)) out.parts.push_back({at, end, x});
    at = end;
  }
  out.gaps = out.parts.size() < n.inputs.size();
  return true;
}

Value sum_of_disjoint(Builder& b, const Graph& g, Value x, Value y);

bool merge(Builder& b, const Graph& g, const Parts& x, const Parts& y, Parts& out) {
  if (x.dim != y.dim || x.shape != y.shape || !(x.gaps || y.gaps)) return false;
  out = {x.dim, x.shape, x.parts};
  for (const Part& p : y.parts) {
    auto at = std::ranges::find_if(out.parts, [&](const Part& o) { return o.end > p.begin; });
    if (at == out.parts.end() || at->begin >= p.end) {
      out.parts.insert(at, p);
      continue;
    }
    if (at->begin != p.begin || at->end != p.end) return false;
    Value sum = sum_of_disjoint(b, g, at->value, p.value);
    at->value = sum ? sum : b.add(at->value, p.value);
  }
  return true;
}

Value assemble(Builder& b, const Parts& p) {
  const DType type = b.dtype(p.parts[0].value);
  const Size size = p.shape[p.dim];
  if (p.parts.size() == 1) return pad_one(b, p.parts[0].value, p.dim, p.parts[0].begin, size - p.parts[0].end);
  std::vector<Value> pieces;
  auto zeros = [&](Size n) {
    Dims shape = p.shape;
    shape[p.dim] = n;
    if (n) pieces.push_back(b.full(shape, 0, type));
  };
  Size at = 0;
  for (const Part& part : p.parts) {
    zeros(part.begin - at);
    pieces.push_back(part.value);
    at = part.end;
  }
  zeros(size - at);
  return b.emit(Op::cat, pieces, Attrs{{static_cast<int64_t>(p.dim)}});
}

Value sum_of_disjoint(Builder& b, const Graph& g, Value x, Value y) {
  const Dims shape = g.type(x).shape;
  if (shape != g.type(y).shape || g.type(x).dtype != g.type(y).dtype) return {};
  auto peel = [&](Value v) {
    while (g[v].op == Op::reshape) v = g[v].inputs[0];
    return v;
  };
  Parts a, c, both;
  if (!parts_of(g, peel(x), a) || !parts_of(g, peel(y), c) || !merge(b, g, a, c, both)) return {};
  return b.reshape(assemble(b, both), shape);
}

}  // namespace

Graph disjoint_sums(const Graph& graph) {
  return rewrite(graph, [](Rewriter& r, uint32_t id) {
    const Node& n = r.from().nodes[id];
    if (n.op == Op::as_strided_scatter && is_zero(r.to(), r[n.inputs[0]]))
      return place(r.builder(), r[n.inputs[1]], n.types[0].shape, n.attrs);
    if (n.op == Op::add) return sum_of_disjoint(r.builder(), r.to(), r[n.inputs[0]], r[n.inputs[1]]);
    return Value{};
  });
}

}  // namespace lazuli::ir::passes
