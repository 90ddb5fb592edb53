// The reference interpreter, written to be read: one node at a time, each element in its compute type and rounded to
// its storage type. It shares formulas with the generated code (the rows' bodies), so torch stays the independent
// oracle for those; for everything else it is the specification.
#pragma once
#include <cstddef>
#include <functional>
#include <vector>
#include "ir/graph.h"

namespace lazuli::ir {

// A dense row-major value.
struct Tensor {
  Type type;
  std::vector<std::byte> data;
  Tensor() = default;
  explicit Tensor(Type t) : type(std::move(t)), data(static_cast<size_t>(type.bytes())) {}
  // Converts each number to the type.
  Tensor(Type t, std::span<const double> values);
  double at(int64_t i) const;  // flat position; integers through double, so exact up to 2 ** 53
  void set(int64_t i, double value);
};

// What the interpreter does not know: the backing device's eager kernels.
using ExternalCall =
    std::function<std::vector<Tensor>(int64_t call, std::span<const Tensor> inputs, std::span<const Type> results)>;

// One tensor per graph input; scalars as bits of a double where floating, else as integers.
std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs, std::span<const int64_t> scalars = {},
                              const ExternalCall& external = {});

// One node whose value the graph knows (no input, run-time number or external call); absent operands are null.
std::vector<Tensor> interpret_node(const Node& node, std::span<const Tensor* const> inputs);

}  // namespace lazuli::ir
