// The frozen SSA graph: nodes in topological order, each an application of an op to earlier values.
// Passes do not edit a graph; they build a new one through a Builder, which keeps the order true by construction.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>
#include "ir/op.h"
#include "ir/type.h"

namespace lazuli::ir {

// One output of a node; `Value{}` is an absent optional operand.
struct Value {
  uint32_t node = UINT32_MAX;
  uint32_t result = 0;
  explicit operator bool() const { return node != UINT32_MAX; }
  // The n-th result of the same node after this one.
  Value next(uint32_t n = 1) const { return {node, result + n}; }
  friend bool operator==(const Value&, const Value&) = default;
  friend auto operator<=>(const Value&, const Value&) = default;
};

// Attributes: integer lists, one per name that the op's row declares, flattened as [length, numbers...]*.
class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::initializer_list<Size>> lists) {
    for (auto& l : lists) add({l.begin(), l.size()});
  }
  Attrs& add(SizeSpan list) {
    flat_.push_back(static_cast<int64_t>(list.size()));
    flat_.append(list);
    return *this;
  }
  Attrs& add(Size number) { return add(SizeSpan(&number, 1)); }
  template <std::integral T>
  Attrs& add(T number) {
    return add(Size(number));
  }
  SizeSpan list(size_t i) const;
  int64_t number(size_t i) const { return list(i)[0]; }
  Size size(size_t i) const { return list(i)[0]; }
  SizeSpan flat() const { return flat_; }
  // Lets `f` change the numbers, but not how many there are.
  template <class F>
  void replace(F f) {
    for (size_t at = 0; at < flat_.size();) {
      const size_t end = at + 1 + static_cast<size_t>(flat_[at]);
      while (++at < end) f(flat_[at]);
    }
  }
  bool empty() const { return flat_.empty(); }
  friend bool operator==(const Attrs&, const Attrs&) = default;

 private:
  Dims flat_;
};

struct Node {
  Op op;
  std::vector<Value> inputs;
  Attrs attrs;
  std::vector<Type> types;  // one per result
  uint32_t line = 0;        // index into Graph::lines: the Python line that recorded it; 0 = unknown
};

// The operands that are memory: of an external call, those before its run-time numbers. Its attribute is its number
// and, if it takes any, how many numbers these are.
inline std::span<const Value> memory_operands(const Node& n) {
  const std::span<const Value> all(n.inputs);
  if (n.op != Op::external) return all;
  const auto call = n.attrs.list(0);
  return call.size() > 1 ? all.first(all.size() - static_cast<size_t>(int64_t{call[1]})) : all;
}

struct Graph {
  std::vector<Node> nodes;
  std::vector<Value> outputs;
  std::vector<std::string> lines = {""};  // "file.py:12"
  // `input` nodes carry their position as attribute 0, and so do `scalar` nodes in a numbering of their own.
  uint32_t input_count = 0, scalar_count = 0;
  // Inputs whose buffer nobody else can read after the run, so that an output may take it over; by input position.
  std::vector<bool> donated;
  // Inputs in whose place the next run gets others: not worth preparing for it. By input position; empty: none.
  std::vector<bool> fleeting;

  const Node& operator[](Value v) const { return nodes[v.node]; }
  const Type& type(Value v) const { return nodes[v.node].types[v.result]; }
};

}  // namespace lazuli::ir
