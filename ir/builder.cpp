#include "ir/builder.h"
#include <bit>
#include "ir/error.h"
#include "ir/hash.h"
#include "ir/infer.h"

namespace lazuli::ir {
namespace {

// The dims that broadcasting `from` to `to` repeats, and whether leading ones were added.
Dims repeated_dims(std::span<const int64_t> from, std::span<const int64_t> to) {
  Dims dims;
  size_t lead = to.size() - from.size();
  for (size_t i = 0; i < to.size(); ++i)
    if (i < lead || (from[i - lead] == 1 && to[i] != 1)) dims.push_back(static_cast<int64_t>(i));
  return dims;
}

}  // namespace

Value Builder::constant(double value, DType dtype) {
  int64_t bits = is_floating(dtype) ? std::bit_cast<int64_t>(value) : static_cast<int64_t>(value);
  Type type{dtype, {}};
  return emit(Op::constant, std::span<const Value>(), Attrs{{bits}}, std::span<const Type>(&type, 1));
}

Value Builder::full(std::span<const int64_t> shape, double value, DType dtype) {
  return broadcast(constant(value, dtype), shape);
}

Value Builder::convert(Value x, DType to) {
  return dtype(x) == to ? x : emit(Op::convert, {x}, Attrs{{static_cast<int64_t>(to)}});
}

Value Builder::reshape(Value x, std::span<const int64_t> to) {
  return std::ranges::equal(shape(x), to) ? x : emit(Op::reshape, {x}, Attrs().add(to));
}

Value Builder::permute(Value x, std::span<const int64_t> order) {
  bool identity = true;
  for (size_t i = 0; i < order.size(); ++i) identity &= order[i] == static_cast<int64_t>(i);
  return identity ? x : emit(Op::permute, {x}, Attrs().add(order));
}

Value Builder::transpose(Value x) {
  Dims order;
  for (int64_t i = 0; i < type(x).rank(); ++i) order.push_back(i);
  LAZULI_CHECK(order.size() >= 2, "transpose needs two dimensions");
  std::swap(order.end()[-1], order.end()[-2]);
  return permute(x, order);
}

Value Builder::broadcast(Value x, std::span<const int64_t> to) {
  return std::ranges::equal(shape(x), to) ? x : emit(Op::broadcast, {x}, Attrs().add(to));
}

Value Builder::sum(Value x, std::span<const int64_t> dims, bool keepdim) {
  return dims.empty() ? x : emit(Op::sum, {x}, Attrs().add(dims).add(keepdim));
}

Value Builder::sum_to(Value x, std::span<const int64_t> to) {
  Dims dims = repeated_dims(to, shape(x));
  return reshape(sum(x, dims, false), to);
}

Value Builder::mean(Value x, std::span<const int64_t> dims, bool keepdim) {
  int64_t count = 1;
  for (int64_t d : dims) count *= shape(x)[d];
  Value total = sum(x, dims, keepdim);
  return div(total, constant(static_cast<double>(count), dtype(x)));
}

Value GraphBuilder::emit(Op op, std::span<const Value> inputs, Attrs attrs, std::span<const Type> types) {
  uint64_t key = 0;
  if (is_pure(op)) {
    key = hash_application(op, inputs, attrs, types);
    for (auto [it, end] = seen_.equal_range(key); it != end; ++it) {
      const Node& n = graph_.nodes[it->second];
      bool same = n.op == op && std::ranges::equal(n.inputs, inputs) && n.attrs == attrs &&
                  (types.empty() || std::ranges::equal(n.types, types));
      if (same) return {it->second, 0};
    }
  }
  Node node{.op = op, .inputs = {inputs.begin(), inputs.end()}, .attrs = std::move(attrs), .types = {}, .line = line_};
  std::vector<const Type*> operands;
  operands.reserve(inputs.size());
  for (Value v : inputs) operands.push_back(v ? &graph_.type(v) : nullptr);
  if (!types.empty()) node.types.assign(types.begin(), types.end());
  else node.types.resize(std::max(info(op).results, 1));
  infer(op, operands, node.attrs, node.types);
  uint32_t id = static_cast<uint32_t>(graph_.nodes.size());
  graph_.nodes.push_back(std::move(node));
  if (is_pure(op)) seen_.emplace(key, id);
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
