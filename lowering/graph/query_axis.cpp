#include "lowering/graph/query_axis.h"
#include "ir/passes/rewrite.h"

namespace lazuli::lowering {
namespace {

using ir::Dims;
using ir::Graph;
using ir::Node;
using ir::Op;
using ir::SizeSpan;
using ir::Value;

using Axes = std::vector<int64_t>;

// The dimension of `to` that dimension `axis` of `from` becomes when it is reshaped; kNoAxis where it is split or
// joined.
int64_t reshaped(const Dims& from, const Dims& to, int64_t axis) {
  const auto before = [](const Dims& shape, int64_t dim) { return ir::product(SizeSpan(shape.data(), dim)); };
  const ir::Size wanted = before(from, axis);
  for (int64_t d = 0; d < to.size(); ++d)
    if (to[d] == from[axis] && before(to, d) == wanted) return d;
  return kNoAxis;
}

int64_t place_of(SizeSpan list, int64_t number) {
  const auto it = std::ranges::find(list, ir::Size(number));
  return it == list.end() ? kNoAxis : it - list.begin();
}

bool is_whole(const Node& slice, const Dims& operand, int64_t axis) {
  return slice.attrs.list(0)[axis] == 0 && slice.attrs.list(1)[axis] == operand[axis];
}

// Which dimension of an operand that broadcasts to `result` is cut with dimension `axis` of that.
int64_t under(const Dims& operand, const Dims& result, int64_t axis) {
  const int64_t d = axis - (int64_t{result.size()} - int64_t{operand.size()});
  return d < 0 || operand[d] != result[axis] ? kNoAxis : d;
}

// What all operands whose queries are known say of the result; kNoAxis where they disagree, or one is lost.
template <class F>
int64_t agreed(const Node& n, const std::function<int64_t(Value)>& axis_of, F in_result) {
  int64_t found = kNoAxis;
  for (Value v : n.inputs) {
    const int64_t axis = v ? axis_of(v) : kNoAxis;
    if (axis == kNoAxis) continue;
    const int64_t d = in_result(v, axis);
    if (d == kNoAxis || (found != kNoAxis && found != d)) return kNoAxis;
    found = d;
  }
  return found;
}

std::optional<BlockRule> reduction(const Node& n, int64_t axis) {
  const SizeSpan dims = n.attrs.list(0);
  if (dims.empty()) return {};
  if (place_of(dims, axis) != kNoAxis) {
    if (n.op != Op::sum) return {};
    return BlockRule{kNoAxis, {axis}};
  }
  const int64_t gone = n.attrs.number(1) ? 0 : std::ranges::count_if(dims, [&](ir::Size d) { return d < axis; });
  return BlockRule{axis - gone, {axis}};
}

// [batch?, m, k] x [batch?, k, n].
std::optional<BlockRule> product(const Node& n, int64_t a, int64_t b) {
  const int64_t rows = n.types[0].rank() - 2, columns = rows + 1;
  if ((a != kNoAxis && a < rows) || (b != kNoAxis && b < rows)) {
    if ((a != kNoAxis && a != 0) || (b != kNoAxis && b != 0)) return {};
    return BlockRule{0, {0, 0}};
  }
  const bool inner = a == columns || b == rows;
  if (!inner) {
    if (a != kNoAxis && b != kNoAxis) return {};
    return a == rows ? BlockRule{rows, {rows, kNoAxis}} : BlockRule{columns, {kNoAxis, columns}};
  }
  if (a == rows || b == columns) return {};
  return BlockRule{kNoAxis, {columns, rows}};
}

// Sums into places: of (base, index, source), where the source's queries lie along what the index names.
std::optional<BlockRule> placed_sum(const Graph& g, const Node& n, int64_t axis) {
  double base = 1;
  if (!ir::constant_value(g, n.inputs[0], base) || base != 0) return {};
  const int64_t dim = n.attrs.number(0);
  if (n.op == Op::scatter_add) {
    if (axis != dim) return {};
    return BlockRule{kNoAxis, {kNoAxis, axis, axis}};
  }
  if (axis < dim || axis >= dim + g.type(n.inputs[1]).rank()) return {};
  return BlockRule{kNoAxis, {kNoAxis, axis - dim, axis}};
}

int64_t viewed(const Node& n, const Dims& from, int64_t axis) {
  switch (n.op) {
    case Op::reshape:
      return reshaped(from, n.types[0].shape, axis);
    case Op::permute:
      return place_of(n.attrs.list(0), axis);
    case Op::broadcast:
      return axis + n.types[0].rank() - int64_t{from.size()};
    case Op::slice:
      return is_whole(n, from, axis) ? axis : kNoAxis;
    default:
      return kNoAxis;
  }
}

}  // namespace

std::optional<std::vector<int64_t>> operands_of(const Graph& g, const Node& n, int64_t axis) {
  const Dims& result = n.types[0].shape;
  Axes axes;
  if (ir::is_elementwise(n.op)) {
    for (Value v : n.inputs) axes.push_back(under(g.type(v).shape, result, axis));
    return axes;
  }
  if (n.op == Op::index_select) {
    const int64_t dim = n.attrs.number(0), names = g.type(n.inputs[1]).rank();
    if (axis < dim || axis >= dim + names) return {};
    return Axes{kNoAxis, axis - dim};
  }
  if (!ir::is_view(n.op)) return {};
  const Dims& from = g.type(n.inputs[0]).shape;
  switch (n.op) {
    case Op::reshape: {
      const int64_t d = reshaped(result, from, axis);
      if (d == kNoAxis) return {};
      return Axes{d};
    }
    case Op::permute:
      return Axes{n.attrs.list(0)[axis]};
    case Op::broadcast:
      return Axes{under(from, result, axis)};
    case Op::slice:
      if (!is_whole(n, from, axis)) return {};
      return Axes{axis};
    default:
      return {};
  }
}

std::optional<BlockRule> rule_of(const Graph& g, const Node& n, const std::function<int64_t(Value)>& axis_of) {
  if (n.types.size() != 1) return {};
  const auto of = [&](size_t i) { return axis_of(n.inputs[i]); };
  int64_t axis = kNoAxis;
  if (ir::is_elementwise(n.op))
    axis = agreed(n, axis_of, [&](Value v, int64_t a) { return a + n.types[0].rank() - g.type(v).rank(); });
  else if (ir::is_reduction(n.op))
    return reduction(n, of(0));
  else if (ir::is_view(n.op))
    axis = viewed(n, g.type(n.inputs[0]).shape, of(0));
  else if (n.op == Op::matmul)
    return product(n, of(0), of(1));
  else if (n.op == Op::index_add || n.op == Op::scatter_add)
    return of(2) == kNoAxis ? std::nullopt : placed_sum(g, n, of(2));
  if (axis == kNoAxis) return {};
  auto operands = operands_of(g, n, axis);
  if (!operands) return {};
  return BlockRule{axis, *std::move(operands)};
}

ir::Attrs attributes_of(const Node& n, int64_t axis, ir::Size rows) {
  if (axis == kNoAxis) return n.attrs;
  const auto cut = [&](SizeSpan list) {
    Dims sizes(list);
    sizes[axis] = rows;
    return sizes;
  };
  if (n.op == Op::reshape || n.op == Op::broadcast) return ir::Attrs().add(cut(n.attrs.list(0)));
  if (n.op == Op::slice) return ir::Attrs().add(n.attrs.list(0)).add(cut(n.attrs.list(1))).add(n.attrs.list(2));
  return n.attrs;
}

}  // namespace lazuli::lowering
