// What the tests of the IR share: graphs from text, tensors filled with numbers, comparison.
#pragma once
#include <cmath>
#include <random>
#include <gtest/gtest.h>
#include "ir/interpret.h"
#include "ir/parse.h"

namespace lazuli::ir::testing {

// Numbers that are exact in every floating type above eight bits: multiples of 1/16 in [low, high].
inline Tensor random_tensor(const Type& type, std::mt19937& generator, double low = -2, double high = 2) {
  Tensor t(type);
  for (int64_t i = 0; i < type.numel(); ++i) {
    double x = std::uniform_real_distribution<double>(low, high)(generator);
    t.set(i, is_floating(type.dtype) ? std::round(x * 16) / 16 : std::floor(x));
  }
  return t;
}

inline std::vector<Type> input_types(const Graph& graph) {
  std::vector<Type> types(graph.input_count);
  for (const Node& n : graph.nodes)
    if (n.op == Op::input) types[n.attrs.number(0)] = n.types[0];
  return types;
}

// NaN equals NaN, and -0 equals 0.
inline void expect_close(const Tensor& got, const Tensor& want, double tolerance, const std::string& what) {
  ASSERT_EQ(to_string(got.type), to_string(want.type)) << what;
  for (int64_t i = 0; i < got.type.numel(); ++i) {
    double a = got.at(i), b = want.at(i);
    if ((std::isnan(a) && std::isnan(b)) || a == b) continue;
    ASSERT_LE(std::abs(a - b), tolerance * (1 + std::abs(b))) << what << ", element " << i;
  }
}

// Runs a one-node graph over f64 (or other) operands of one element each: the value of a formula.
inline double evaluate(const std::string& text, std::vector<double> numbers = {}) {
  Graph g = parse(text);
  std::vector<Tensor> inputs;
  std::vector<Type> types = input_types(g);
  for (size_t i = 0; i < types.size(); ++i) inputs.emplace_back(types[i], std::span(&numbers.at(i), 1));
  return interpret(g, inputs)[0].at(0);
}

}  // namespace lazuli::ir::testing
