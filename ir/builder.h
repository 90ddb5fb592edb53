// Emits applications of ops. Derivatives and decompositions are written over this interface once, and serve
// whatever stands behind it: a graph under construction here, the recording trace, or torch's dispatcher.
#pragma once
#include <string>
#include "ir/graph.h"

namespace lazuli::ir {

struct Application {
  Op op;
  std::span<const Value> inputs;
  std::span<const Value> results;  // empty in decompositions
  const Attrs& attrs;
};

class Builder {
 public:
  virtual ~Builder() = default;
  // Infers result types (or takes `types` for leaves and external calls) and appends; returns the first result.
  // Further results have the same node and the next `result` numbers. Throws TypeError.
  virtual Value emit(Op op, std::span<const Value> inputs, Attrs attrs, std::span<const Type> types) = 0;
  virtual const Type& type(Value v) const = 0;

  Value emit(Op op, std::span<const Value> inputs, Attrs attrs = {}) { return emit(op, inputs, std::move(attrs), {}); }
  Value emit(Op op, std::initializer_list<Value> inputs, Attrs attrs = {}) {
    return emit(op, std::span<const Value>(inputs.begin(), inputs.size()), std::move(attrs), {});
  }
  const Dims& shape(Value v) const { return type(v).shape; }
  DType dtype(Value v) const { return type(v).dtype; }

  // Shorthands, each one op. Shapes broadcast; types must agree.
  Value constant(double value, DType dtype);
  Value count(Size number, DType dtype);  // as a constant, which need not be known yet
  Value full(SizeSpan shape, double value, DType dtype);
  Value convert(Value x, DType to);  // x itself when the type is right already
  Value reshape(Value x, SizeSpan shape);
  Value permute(Value x, SizeSpan order);
  Value transpose(Value x);  // swaps the last two dimensions
  Value broadcast(Value x, SizeSpan shape);
  Value sum(Value x, SizeSpan dims, bool keepdim);
  Value sum_to(Value x, SizeSpan shape);  // the transpose of broadcasting to x's shape
  Value mean(Value x, SizeSpan dims, bool keepdim);
  Value add(Value a, Value b) { return emit(Op::add, {a, b}); }
  Value sub(Value a, Value b) { return emit(Op::sub, {a, b}); }
  Value mul(Value a, Value b) { return emit(Op::mul, {a, b}); }
  Value div(Value a, Value b) { return emit(Op::div, {a, b}); }
  Value neg(Value a) { return emit(Op::neg, {a}); }
  Value mul(Value a, double c) { return mul(a, constant(c, dtype(a))); }
  Value add(Value a, double c) { return add(a, constant(c, dtype(a))); }
};

// Appends to a graph, hash-consing pure nodes (common subexpressions are shared as they are built).
class GraphBuilder final : public Builder {
 public:
  explicit GraphBuilder(Graph& graph) : graph_(graph) {}
  using Builder::emit;
  Value emit(Op op, std::span<const Value> inputs, Attrs attrs, std::span<const Type> types) override;
  const Type& type(Value v) const override { return graph_.type(v); }
  Value input(Type type);     // the next `input`
  Value scalar(DType dtype);  // the next run-time number
  // Appends a node whose types are known to be what its row infers: what passes copy.
  Value append(Node node);
  // Makes room for so many nodes to be shared.
  void reserve(size_t nodes);
  void set_line(uint32_t line) { line_ = line; }
  Graph& graph() { return graph_; }

 private:
  Graph& graph_;
  struct Slot {
    uint64_t key = 0;
    uint32_t node = UINT32_MAX;
  };
  // The slot of an equal pure node, or the free one where this belongs.
  Slot& find(uint64_t key, Op op, std::span<const Value> inputs, const Attrs& attrs, std::span<const Type> types);
  void grow();
  uint32_t line_ = 0;
  std::vector<Slot> seen_;  // open addressing; a power of two, at most half full
  size_t seen_count_ = 0;
};

// Expands one application through its row: decomposition, or derivative of another row. False when the row is
// primitive.
bool decompose(Builder& b, const Application& a, std::span<Value> results);

// One application's cotangent rule: those of its inputs that `needs` masks, from its results' (either may be absent:
// zero).
// The row's own rule, the row that is its derivative, or the rule derived from its body or decomposition.
void vjp(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t needs, std::span<Value> out);

// Reverse mode over `graph`: emits into `b` (whose values `map` holds, by node and result, for the nodes of graph)
// the cotangents of `wrt` given those of `outputs`. An absent result means zero.
std::vector<Value> differentiate(Builder& b, const Graph& graph, const std::vector<std::vector<Value>>& map,
                                 std::span<const Value> outputs, std::span<const Value> cotangents,
                                 std::span<const Value> wrt);

}  // namespace lazuli::ir
