// Layers of recurrent networks in the interpreter: numbers that are computed here, and operands that do not fit.
#include <cmath>
#include <gtest/gtest.h>
#include "ir/error.h"
#include "ir/interpret.h"
#include "ir/parse.h"

namespace lazuli::ir::testing {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

std::vector<Tensor> run(const std::string& row, const std::vector<Tensor>& inputs) {
  std::string text;
  for (size_t i = 0; i < inputs.size(); ++i)
    text +=
        "%" + std::to_string(i) + " : " + to_string(inputs[i].type) + " = input [position=" + std::to_string(i) + "]\n";
  return interpret(parse(text + row), inputs);
}

TEST(RecurrentLayers, Lstm) {
  const double h = 0.5, c = -0.25, w[] = {0.1, -0.2, 0.3, 0.4}, x[] = {1, -1, 0.5, 2};
  for (const char* order : {"0", "1"}) {
    const auto out = run(std::string("%4 : f32[1,1,1], %5 : f32[1,1] = lstm_layer %0, %1, %2, %3 [reverse=") + order +
                             "]\nreturn %4, %5",
                         {Tensor({DType::F32, {1, 1, 4}}, x), Tensor({DType::F32, {4, 1}}, w),
                          Tensor({DType::F32, {1, 1}}, std::vector{h}), Tensor({DType::F32, {1, 1}}, std::vector{c})});
    const auto gate = [&](int i) { return x[i] + h * w[i]; };
    const double state = sigmoid(gate(1)) * c + sigmoid(gate(0)) * std::tanh(gate(2));
    EXPECT_NEAR(out[1].at(0), state, 1e-6);
    EXPECT_NEAR(out[0].at(0), sigmoid(gate(3)) * std::tanh(state), 1e-6);
  }
}

TEST(RecurrentLayers, GruFromEitherEnd) {
  const double w[] = {0.1, -0.2, 0.3}, b[] = {0.05, 0.1, -0.15}, x[] = {1, -1, 0.5, 2, 0.25, -0.75};
  for (int reverse : {0, 1}) {
    const auto out =
        run("%4 : f32[2,1,1] = gru_layer %0, %1, %2, %3 [reverse=" + std::to_string(reverse) + "]\nreturn %4",
            {Tensor({DType::F32, {2, 1, 3}}, x), Tensor({DType::F32, {3, 1}}, w),
             Tensor({DType::F32, {1, 1}}, std::vector{0.5}), Tensor({DType::F32, {3}}, b)});
    double h = 0.5;
    for (int step = 0; step < 2; ++step) {
      const int t = reverse ? 1 - step : step;
      const auto product = [&](int i) { return h * w[i] + b[i]; };
      const double r = sigmoid(x[3 * t] + product(0)), z = sigmoid(x[3 * t + 1] + product(1));
      const double n = std::tanh(x[3 * t + 2] + r * product(2));
      h = (1 - z) * n + z * h;
      EXPECT_NEAR(out[0].at(t), h, 1e-6);
    }
  }
}

TEST(RecurrentLayers, OperandsThatDoNotFit) {
  const auto all = [](Dims gates, Dims w, Dims h, Dims c) {
    return std::vector{Tensor({DType::F32, gates}), Tensor({DType::F32, w}), Tensor({DType::F32, h}),
                       Tensor({DType::F32, c})};
  };
  const std::string row = "%4 : f32[1,2,3], %5 : f32[2,3] = lstm_layer %0, %1, %2, %3 [reverse=0]\nreturn %4";
  EXPECT_NO_THROW(run(row, all({1, 2, 12}, {12, 3}, {2, 3}, {2, 3})));
  EXPECT_THROW(run(row, all({1, 2, 9}, {12, 3}, {2, 3}, {2, 3})), ParseError);
  EXPECT_THROW(run(row, all({1, 2, 12}, {9, 3}, {2, 3}, {2, 3})), ParseError);
  EXPECT_THROW(run(row, all({1, 2, 12}, {12, 3}, {3, 3}, {2, 3})), ParseError);
  EXPECT_THROW(run(row, all({1, 2, 12}, {12, 3}, {2, 3}, {2, 4})), ParseError);
}

}  // namespace
}  // namespace lazuli::ir::testing
