#include "ir/builder.h"
#include <bit>
#include "ir/error.h"
#include "ir/hash.h"
#include "ir/infer.h"

namespace lazuli::ir {
namespace {

// The dims that broadcasting `from` to `to` repeats, and whether leading ones were added.
Dims repeated_dims(SizeSpan from, SizeSpan to) {
  Dims dims;
  size_t lead = to.size() - from.size();
  for (size_t i = 0; i < to.size(); ++i)
    if (i < lead || (from[i - lead] == 1 && to[i] != 1)) dims.push_back(static_cast<int64_t>(i));
  return dims;
}

Value constant_of(Builder& b, Size bits, DType dtype) {
  const Type type{dtype, {}};
  return b.emit(Op::constant, std::span<const Value>(), Attrs{{bits}}, std::span<const Type>(&type, 1));
}

}  // namespace

Value Builder::constant(double value, DType dtype) {
  return constant_of(*this, is_floating(dtype) ? std::bit_cast<int64_t>(value) : static_cast<int64_t>(value), dtype);
}

Value Builder::count(Size number, DType dtype) {
  return constant_of(*this, is_floating(dtype) ? number.as_double() : number, dtype);
}

Value Builder::full(SizeSpan shape, double value, DType dtype) { return broadcast(constant(value, dtype), shape); }

Value Builder::convert(Value x, DType to) {
  return dtype(x) == to ? x : emit(Op::convert, {x}, Attrs{{static_cast<int64_t>(to)}});
}

Value Builder::reshape(Value x, SizeSpan to) {
  return std::ranges::equal(shape(x), to) ? x : emit(Op::reshape, {x}, Attrs().add(to));
}

Value Builder::permute(Value x, SizeSpan order) {
  bool identity = true;
  for (size_t i = 0; i < order.size(); ++i) identity &= order[i] == static_cast<int64_t>(i);
  return identity ? x : emit(Op::permute, {x}, Attrs().add(order));
}

Value Builder::transpose(Value x) {
  Dims order;
  for (Size i = 0; i < type(x).rank(); ++i) order.push_back(i);
  LAZULI_CHECK(order.size() >= 2, "transpose needs two dimensions");
  std::swap(order.end()[-1], order.end()[-2]);
  return permute(x, order);
}

Value Builder::broadcast(Value x, SizeSpan to) {
  return std::ranges::equal(shape(x), to) ? x : emit(Op::broadcast, {x}, Attrs().add(to));
}

Value Builder::sum(Value x, SizeSpan dims, bool keepdim) {
  return dims.empty() ? x : emit(Op::sum, {x}, Attrs().add(dims).add(keepdim));
}

Value Builder::sum_to(Value x, SizeSpan to) {
  if (std::ranges::equal(shape(x), to)) return x;
  Dims dims = repeated_dims(to, shape(x));
  return reshape(sum(x, dims, false), to);
}

Value Builder::mean(Value x, SizeSpan dims, bool keepdim) {
  Size count = 1;
  for (Size d : dims) count *= shape(x)[d];
  Value total = sum(x, dims, keepdim);
  return div(total, this->count(count, dtype(x)));
}

GraphBuilder::Slot& GraphBuilder::find(uint64_t key, Op op, std::span<const Value> inputs, const Attrs& attrs,
                                       std::span<const Type> types) {
  if (seen_count_ * 2 >= seen_.size()) grow();
  for (size_t i = key;; ++i) {
    Slot& slot = seen_[i & (seen_.size() - 1)];
    if (slot.node == UINT32_MAX) return slot;
    if (slot.key != key) continue;
    const Node& n = graph_.nodes[slot.node];
    bool same = n.op == op && std::ranges::equal(n.inputs, inputs) && n.attrs == attrs &&
                (types.empty() || std::ranges::equal(n.types, types));
    if (same) return slot;
  }
}

void GraphBuilder::reserve(size_t nodes) {
  if (seen_.empty()) seen_.resize(std::bit_ceil(std::max<size_t>(64, 2 * nodes + 2)));
}

void GraphBuilder::grow() {
  std::vector<Slot> old(std::max<size_t>(64, seen_.size() * 2));
  old.swap(seen_);
  for (const Slot& s : old) {
    if (s.node == UINT32_MAX) continue;
    size_t i = s.key;
    while (seen_[i & (seen_.size() - 1)].node != UINT32_MAX) ++i;
    seen_[i & (seen_.size() - 1)] = s;
  }
}

Value GraphBuilder::emit(Op op, std::span<const Value> inputs, Attrs attrs, std::span<const Type> types) {
  Slot* slot = nullptr;
  uint64_t key = 0;
  if (is_pure(op)) {
    key = for_lookup(hash_application(op, inputs, attrs, types));
    slot = &find(key, op, inputs, attrs, types);
    if (slot->node != UINT32_MAX) return {slot->node, 0};
  }
  Node node{.op = op, .inputs = {inputs.begin(), inputs.end()}, .attrs = std::move(attrs), .types = {}, .line = line_};
  const Type* few[8];
  std::vector<const Type*> many;
  if (inputs.size() > std::size(few)) many.resize(inputs.size());
  const Type** operands = many.empty() ? few : many.data();
  for (size_t i = 0; i < inputs.size(); ++i) operands[i] = inputs[i] ? &graph_.type(inputs[i]) : nullptr;
  if (!types.empty())
    node.types.assign(types.begin(), types.end());
  else
    node.types.resize(std::max(info(op).results, 1));
  infer(op, {operands, inputs.size()}, node.attrs, node.types);
  uint32_t id = static_cast<uint32_t>(graph_.nodes.size());
  graph_.nodes.push_back(std::move(node));
  if (slot) {
    *slot = {key, id};
    ++seen_count_;
  }
  return {id, 0};
}

Value GraphBuilder::append(Node node) {
  uint32_t id = static_cast<uint32_t>(graph_.nodes.size());
  if (is_pure(node.op)) {
    // Keyed as `emit` would: given types count only where they are given.
    std::span<const Type> types;
    if (takes_types(node.op)) types = node.types;
    uint64_t key = for_lookup(hash_application(node.op, node.inputs, node.attrs, types));
    Slot& slot = find(key, node.op, node.inputs, node.attrs, types);
    if (slot.node != UINT32_MAX) return {slot.node, 0};
    slot = {key, id};
    ++seen_count_;
  }
  graph_.nodes.push_back(std::move(node));
  return {id, 0};
}

Value GraphBuilder::input(Type type) {
  return emit(Op::input, std::span<const Value>(), Attrs{{graph_.input_count++}}, std::span<const Type>(&type, 1));
}

Value GraphBuilder::scalar(DType dtype) {
  Type type{dtype, {}};
  return emit(Op::scalar, std::span<const Value>(), Attrs{{graph_.scalar_count++}}, std::span<const Type>(&type, 1));
}

}  // namespace lazuli::ir
