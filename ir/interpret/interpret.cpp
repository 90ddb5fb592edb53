#include "ir/interpret.h"
#include "ir/builder.h"
#include "ir/interpret/number.h"
#include "ir/interpret/rules.h"

namespace lazuli::ir {
namespace {

// A 0-dim value from the bits that constants and run-time numbers carry.
Tensor number(DType dtype, int64_t bits) {
  Tensor t(Type{dtype, {}});
  if (is_floating(dtype))
    t.set(0, std::bit_cast<double>(bits));
  else
    dispatch(dtype, [&]<class T>() { store<T>(t, 0, static_cast<T>(bits)); });
  return t;
}

Tensor iota(const Type& type) {
  Tensor t(type);
  for (int64_t i = 0; i < type.numel(); ++i) store<int64_t>(t, i, i);
  return t;
}

class Interpreter {
 public:
  Interpreter(const Graph& graph, std::span<const Tensor> inputs, std::span<const int64_t> scalars,
              const ExternalCall& external)
      : graph_(graph), inputs_(inputs), scalars_(scalars), external_(external), values_(graph.nodes.size()) {}

  std::vector<Tensor> run() {
    for (uint32_t id = 0; id < graph_.nodes.size(); ++id) values_[id] = node(graph_.nodes[id]);
    std::vector<Tensor> outputs;
    for (Value v : graph_.outputs) outputs.push_back(values_[v.node][v.result]);
    return outputs;
  }

 private:
  std::vector<Tensor> node(const Node& n) {
    switch (n.op) {  // where values come from outside the graph
      case Op::input:
        return {input(n)};
      case Op::scalar:
        return {number(n.types[0].dtype, scalars_[n.attrs.number(0)])};
      case Op::external:
        return call(n);
      default:
        break;
    }
    std::vector<const Tensor*> operands;
    for (Value v : n.inputs) operands.push_back(v ? &values_[v.node][v.result] : nullptr);
    return interpret_node(n, operands);
  }

  Tensor input(const Node& n) {
    int64_t position = n.attrs.number(0);
    LAZULI_CHECK(position < static_cast<int64_t>(inputs_.size()), "an input is missing");
    LAZULI_CHECK(inputs_[position].type == n.types[0], "an input has another type than the graph says");
    return inputs_[position];
  }

  std::vector<Tensor> call(const Node& n) {
    LAZULI_CHECK(external_, "an external call needs somebody to run it");
    std::vector<Tensor> operands;
    for (Value v : n.inputs) operands.push_back(v ? values_[v.node][v.result] : Tensor());
    return external_(n.attrs.number(0), operands, n.types);
  }

  const Graph& graph_;
  std::span<const Tensor> inputs_;
  std::span<const int64_t> scalars_;
  const ExternalCall& external_;
  std::vector<std::vector<Tensor>> values_;
};

std::vector<Tensor> interpret_leaf(const Node& n) {
  if (n.op == Op::constant) return {number(n.types[0].dtype, n.attrs.number(0))};
  return {n.op == Op::iota ? iota(n.types[0]) : Tensor(n.types[0])};
}

// Composites run through their decomposition.
std::vector<Tensor> interpret_composite(const Node& node, std::span<const Tensor* const> operands) {
  Graph g;
  GraphBuilder b(g);
  std::vector<Value> inputs;
  std::vector<Tensor> tensors;
  for (const Tensor* t : operands) {
    inputs.push_back(t ? b.input(t->type) : Value{});
    if (t) tensors.push_back(*t);
  }
  g.outputs.resize(node.types.size());
  LAZULI_CHECK(decompose(b, {node.op, inputs, {}, node.attrs}, g.outputs),
               std::string(name(node.op)) + " has no interpretation");
  return interpret(g, tensors);
}

}  // namespace

Tensor::Tensor(Type t, std::span<const double> values) : Tensor(std::move(t)) {
  for (size_t i = 0; i < values.size(); ++i) set(static_cast<int64_t>(i), values[i]);
}
double Tensor::at(int64_t i) const {
  return dispatch(compute_type(type.dtype), [&]<class T>() { return static_cast<double>(load<T>(*this, i)); });
}
void Tensor::set(int64_t i, double value) {
  dispatch(compute_type(type.dtype), [&]<class T>() { store<T>(*this, i, static_cast<T>(value)); });
}

Dims broadcast_strides(std::span<const int64_t> from, size_t rank) {
  Dims dense = contiguous_strides(from), strides(rank, 0);
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] != 1) strides[rank - from.size() + i] = dense[i];
  return strides;
}

std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs, std::span<const int64_t> scalars,
                              const ExternalCall& external) {
  return Interpreter(graph, inputs, scalars, external).run();
}

std::vector<Tensor> interpret_node(const Node& node, std::span<const Tensor* const> inputs) {
  if (is_leaf(node.op)) return interpret_leaf(node);
  if (is_composite(node.op)) return interpret_composite(node, inputs);
  std::vector<Tensor> results;
  for (const Type& t : node.types) results.emplace_back(t);
  const OpInfo& row = info(node.op);
  switch (row.kind) {
    case Kind::Elementwise:
      interpret_elementwise(node, inputs, results);
      break;
    case Kind::Reduction:
      interpret_reduction(node, inputs, results);
      break;
    case Kind::View:
      interpret_view(node, inputs, results);
      break;
    default:
      LAZULI_CHECK(row.interpret, std::string(row.name) + " has no interpretation");
      row.interpret(node, inputs, results);
  }
  return results;
}

}  // namespace lazuli::ir
