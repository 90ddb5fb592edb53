// Derivatives where difference quotients say nothing: at bounds, between equals, at zeros. The numbers are torch's.
#include "ir/gradient.h"
#include "tests/ir/support.h"

namespace lazuli::ir::testing {
namespace {

// The derivatives of the graph's result by each of its inputs, for a cotangent of ones.
std::vector<std::vector<double>> gradients(const std::string& text, const std::vector<std::vector<double>>& inputs) {
  const Graph graph = with_gradients(parse(text));
  const std::vector<Type> types = input_types(graph);
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < types.size(); ++i) tensors.emplace_back(types[i], std::span(inputs[i]));
  const std::vector<Tensor> results = interpret(graph, tensors);
  std::vector<std::vector<double>> out;
  for (size_t i = 1; i < results.size(); ++i) {
    out.emplace_back();
    for (int64_t k = 0; k < results[i].type.numel(); ++k) out.back().push_back(results[i].at(k));
  }
  return out;
}
using Gradients = std::vector<std::vector<double>>;

std::string unary(const std::string& rest) { return "%0 : f64[3] = input [position=0]\n" + rest; }
std::string binary(const std::string& row) {
  return "%0 : f64[3] = input [position=0]\n%1 : f64[3] = input [position=1]\n%2 : f64[3] = " + row +
         " %0, %1\nreturn %2";
}

TEST(DerivativeEdges, ClampGivesItsBoundsToTheOperand) {
  EXPECT_EQ(gradients(binary("clamp_min"), {{1, 2, 3}, {2, 2, 2}}), (Gradients{{0, 1, 1}, {1, 0, 0}}));
  EXPECT_EQ(gradients(binary("clamp_max"), {{1, 2, 3}, {2, 2, 2}}), (Gradients{{1, 1, 0}, {0, 0, 1}}));
  const std::string clamp =
      "%0 : f64[4] = input [position=0]\n%1 : f64[4] = input [position=1]\n%2 : f64[4] = input [position=2]\n"
      "%3 : f64[4] = clamp %0, %1, %2\nreturn %3";
  EXPECT_EQ(gradients(clamp, {{1, 2, 3, 4}, {1, 1, 1, 1}, {3, 3, 3, 3}}),
            (Gradients{{1, 1, 1, 0}, {0, 0, 0, 0}, {0, 0, 0, 1}}));
  // Bounds that cross: the upper one counts.
  EXPECT_EQ(gradients(clamp, {{0, 1, 2, 3}, {2, 2, 2, 2}, {1, 1, 1, 1}}),
            (Gradients{{0, 0, 0, 0}, {0, 0, 0, 0}, {1, 1, 1, 1}}));
}

TEST(DerivativeEdges, EqualsShareTheDerivativeOfTheirExtremum) {
  EXPECT_EQ(gradients(binary("maximum"), {{1, 2, 3}, {2, 2, 2}}), (Gradients{{0, 0.5, 1}, {1, 0.5, 0}}));
  EXPECT_EQ(gradients(binary("minimum"), {{1, 2, 3}, {2, 2, 2}}), (Gradients{{1, 0.5, 0}, {0, 0.5, 1}}));
  const std::string amax = "%0 : f64[4] = input [position=0]\n%1 : f64[] = amax %0 [dims=0 keepdim=0]\nreturn %1";
  EXPECT_EQ(gradients(amax, {{2, 1, 2, 0}}), (Gradients{{0.5, 0, 0.5, 0}}));
}

TEST(DerivativeEdges, AProductsOnlyZeroHasADerivative) {
  const std::string prod = unary("%1 : f64[] = prod %0 [dims=0 keepdim=0]\nreturn %1");
  EXPECT_EQ(gradients(prod, {{2, 3, 4}}), (Gradients{{12, 8, 6}}));
  EXPECT_EQ(gradients(prod, {{2, 0, 4}}), (Gradients{{0, 8, 0}}));
  EXPECT_EQ(gradients(prod, {{0, 0, 4}}), (Gradients{{0, 0, 0}}));
}

TEST(DerivativeEdges, PowersOfZero) {
  const auto by_exponent = gradients(binary("pow"), {{0, 0, 0}, {2, 0, -1}})[1];
  EXPECT_EQ(by_exponent[0], 0);
  EXPECT_EQ(by_exponent[1], 0);
  EXPECT_EQ(by_exponent[2], -INFINITY);
}

TEST(DerivativeEdges, RemaindersOfNegativeNumbers) {
  EXPECT_EQ(gradients(binary("remainder"), {{-5, 5, 7}, {3, -3, 3}}), (Gradients{{1, 1, 1}, {2, 2, -2}}));
  EXPECT_EQ(gradients(binary("fmod"), {{-5, 5, 7}, {3, -3, 3}}), (Gradients{{1, 1, 1}, {1, 1, -2}}));
}

// Rows of three that begin two apart share an element with the next.
TEST(DerivativeEdges, WindowsThatShareAnElement) {
  const std::string windows =
      "%0 : f64[7] = input [position=0]\n%1 : f64[3,3] = as_strided %0 [shape=[3,3] strides=[2,1] offset=0]\nreturn %1";
  EXPECT_EQ(gradients(windows, {{1, 2, 3, 4, 5, 6, 7}}), (Gradients{{1, 1, 2, 1, 2, 1, 1}}));
}

// One element is cropped at the beginning, two of the border stand at the end.
TEST(DerivativeEdges, TheBorderOfAPadThatCrops) {
  const std::string pad =
      "%0 : f64[3] = input [position=0]\n%1 : f64[] = input [position=1]\n"
      "%2 : f64[4] = pad %0, %1 [low=-1 high=2]\nreturn %2";
  EXPECT_EQ(gradients(pad, {{1, 2, 3}, {9}}), (Gradients{{0, 1, 1}, {2}}));
}

TEST(DerivativeEdges, ThePaddingRowOfAnEmbedding) {
  const Graph g = parse(
      "%0 : f64[3,2] = input [position=0]\n%1 : i64[3] = input [position=1]\n"
      "%2 : f64[2,2] = embedding_backward %0, %1 [rows=2 padding=0]\nreturn %2");
  const std::vector<Tensor> inputs{Tensor(Type{DType::F64, {3, 2}}, std::vector<double>{1, 2, 3, 4, 5, 6}),
                                   Tensor(Type{DType::I64, {3}}, std::vector<double>{0, 1, 1})};
  const Tensor rows = interpret(g, inputs)[0];
  EXPECT_EQ(rows.at(0), 0);
  EXPECT_EQ(rows.at(1), 0);
  EXPECT_EQ(rows.at(2), 8);
  EXPECT_EQ(rows.at(3), 10);
}

}  // namespace
}  // namespace lazuli::ir::testing
