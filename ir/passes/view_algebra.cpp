// Views of views, and views that change nothing.
#include "ir/passes/simplify.h"

namespace lazuli::ir {
namespace {

bool is_broadcast_number(const Candidate& c) {
  const Node& p = c.producer(0);
  return p.op == Op::broadcast && c.r.to().type(p.inputs[0]).rank() == 0;
}

Value number_everywhere(const Candidate& c) {
  return is_broadcast_number(c) ? c.b().broadcast(c.producer(0).inputs[0], c.result().shape) : Value{};
}

// The operand in the result's shape, without a reshape of a reshape.
Value as_reshape(const Candidate& c) {
  const Node& p = c.producer(0);
  return c.b().reshape(p.op == Op::reshape ? p.inputs[0] : c.in[0], c.result().shape);
}

Value reshape_rule(const Candidate& c) {
  if (c.type(0).shape == c.result().shape) return c.in[0];
  return c.producer(0).op == Op::reshape ? as_reshape(c) : number_everywhere(c);
}

// Moves only dimensions of size 1: no element changes place.
bool keeps_elements(SizeSpan order, SizeSpan shape) {
  Size last = -1;
  for (Size d : order) {
    if (shape[d].is_surely_one()) continue;
    if (d < last) return false;
    last = d;
  }
  return true;
}

Value permute_rule(const Candidate& c) {
  auto order = c.node.attrs.list(0);
  if (keeps_elements(order, c.type(0).shape)) return as_reshape(c);
  const Node& p = c.producer(0);
  if (p.op != Op::permute) return number_everywhere(c);
  Dims both;
  for (Size d : order) both.push_back(p.attrs.list(0)[d]);
  return c.b().permute(p.inputs[0], both);
}

SizeSpan without_leading_ones(SizeSpan shape) {
  while (!shape.empty() && shape[0].is_surely_one()) shape = shape.subspan(1);
  return shape;
}

Value broadcast_rule(const Candidate& c) {
  const Type& x = c.type(0);
  if (x.shape == c.result().shape) return c.in[0];
  if (x.numel() == c.result().numel()) return as_reshape(c);
  const Node& p = c.producer(0);
  if (p.op == Op::broadcast) return c.b().broadcast(p.inputs[0], c.result().shape);
  if (p.op != Op::reshape) return {};
  // A reshape that only adds leading ones: broadcasting does that.
  const Dims& inner = c.r.to().type(p.inputs[0]).shape;
  if (inner.size() > x.shape.size() || !std::ranges::equal(without_leading_ones(x.shape), without_leading_ones(inner)))
    return {};
  return c.b().broadcast(p.inputs[0], c.result().shape);
}

// Of a concatenation: the operand that holds all of the slice, where one does, whatever other sizes are.
Value slice_of_piece(const Candidate& c) {
  const Node& cat = c.producer(0);
  const auto dim = static_cast<size_t>(cat.attrs.number(0));
  Dims starts(c.node.attrs.list(0));
  const Size size = c.node.attrs.list(1)[dim], last = (size - 1) * c.node.attrs.list(2)[dim];
  for (Value piece : cat.inputs) {
    const Size length = c.r.to().type(piece).shape[dim];
    if (length.is_symbolic() || starts[dim].is_symbolic() || last.is_symbolic()) return {};
    if (size > 0 && starts[dim] + last < length)
      return c.b().emit(Op::slice, {piece}, Attrs().add(starts).add(c.node.attrs.list(1)).add(c.node.attrs.list(2)));
    if (starts[dim] < length) return {};
    starts[dim] -= length;
  }
  return {};
}

Value slice_rule(const Candidate& c) {
  if (c.type(0).shape == c.result().shape) return c.in[0];
  const Node& p = c.producer(0);
  if (p.op == Op::cat) return slice_of_piece(c);
  if (p.op != Op::slice) return number_everywhere(c);
  Dims starts, steps;
  for (size_t d = 0; d < c.result().shape.size(); ++d) {
    starts.push_back(p.attrs.list(0)[d] + c.node.attrs.list(0)[d] * p.attrs.list(2)[d]);
    steps.push_back(p.attrs.list(2)[d] * c.node.attrs.list(2)[d]);
  }
  return c.b().emit(Op::slice, {p.inputs[0]}, Attrs().add(starts).add(c.node.attrs.list(1)).add(steps));
}

Value flip_rule(const Candidate& c) {
  const Node& p = c.producer(0);
  bool undone = p.op == Op::flip && p.attrs == c.node.attrs;
  bool nothing = std::ranges::all_of(c.node.attrs.list(0), [&](Size d) { return c.result().shape[d] <= 1; });
  return undone ? p.inputs[0] : nothing ? c.in[0] : number_everywhere(c);
}

// Positions are flat, so a reshape below changes nothing.
Value as_strided_rule(const Candidate& c) {
  const Node& p = c.producer(0);
  return p.op == Op::reshape ? c.b().emit(c.node.op, {p.inputs[0]}, c.node.attrs) : number_everywhere(c);
}

Value bitcast_rule(const Candidate& c) {
  if (c.type(0).dtype == c.result().dtype) return as_reshape(c);
  const Node& p = c.producer(0);
  return p.op == Op::bitcast || p.op == Op::reshape ? c.b().emit(Op::bitcast, {p.inputs[0]}, c.node.attrs) : Value{};
}

Value pad_rule(const Candidate& c) {
  bool nothing = true;
  for (size_t i : {0, 1}) nothing &= std::ranges::all_of(c.node.attrs.list(i), [](Size n) { return n == 0; });
  return nothing ? c.in[0] : Value{};
}

// One slice, where two of the same value lie next to each other along the dimension; else none.
Value both_slices(const Candidate& c, Value first, Value second, size_t dim) {
  const Graph& g = c.r.to();
  if (g[first].op != Op::slice || g[second].op != Op::slice) return {};
  const Node a = g[first], b = g[second];  // copies: emitting moves nodes
  if (a.inputs != b.inputs) return {};
  Dims starts(a.attrs.list(0)), sizes(a.attrs.list(1)), steps(a.attrs.list(2)), next = starts;
  next[dim] += sizes[dim] * steps[dim];
  const Size more = b.attrs.list(1)[dim];
  const bool follows = std::ranges::equal(next, b.attrs.list(0)) && std::ranges::equal(steps, b.attrs.list(2));
  if (!follows) return {};
  sizes[dim] += more;
  if (sizes == g.type(a.inputs[0]).shape) return a.inputs[0];
  return c.b().emit(Op::slice, {a.inputs[0]}, Attrs().add(starts).add(sizes).add(steps));
}

Value cat_rule(const Candidate& c) {
  std::vector<Value> parts;
  Size dim = c.node.attrs.number(0);
  for (size_t i = 0; i < c.in.size(); ++i) {
    if (c.type(i).shape[dim] == 0) continue;
    Value both = parts.empty() ? Value{} : both_slices(c, parts.back(), c.in[i], static_cast<size_t>(dim));
    if (both)
      parts.back() = both;
    else
      parts.push_back(c.in[i]);
  }
  if (parts.size() == c.in.size() && parts.size() != 1) return {};
  if (parts.empty()) return c.in[0];
  return parts.size() == 1 ? parts[0] : c.b().emit(Op::cat, parts, c.node.attrs);
}

constexpr RuleEntry kRules[] = {
    {Op::reshape, reshape_rule}, {Op::permute, permute_rule}, {Op::broadcast, broadcast_rule},
    {Op::slice, slice_rule},     {Op::flip, flip_rule},       {Op::as_strided, as_strided_rule},
    {Op::bitcast, bitcast_rule}, {Op::pad, pad_rule},         {Op::cat, cat_rule},
};

}  // namespace

std::span<const RuleEntry> view_rules() { return kRules; }

}  // namespace lazuli::ir
