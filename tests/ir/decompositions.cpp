// Composite rows against the closed formulas of torch's documentation, with numbers worked out by hand.
#include "ir/builder.h"
#include "tests/ir/support.h"

namespace lazuli::ir::testing {
namespace {

class Sheet {
 public:
  Value number(std::vector<double> numbers, Dims shape = {}, DType dtype = DType::F64) {
    inputs_.emplace_back(Type{dtype, shape}, numbers);
    return b_.input({dtype, shape});
  }
  // All results of an application.
  std::vector<Tensor> apply(Op op, std::initializer_list<Value> operands, Attrs attrs) {
    const Value first = b_.emit(op, operands, std::move(attrs));
    for (int r = 0; r < info(op).results; ++r)
      graph_.outputs.push_back({first.node, first.result + static_cast<uint32_t>(r)});
    return interpret(graph_, inputs_);
  }

 private:
  Graph graph_;
  GraphBuilder b_{graph_};
  std::vector<Tensor> inputs_;
};

constexpr Value kNone{};

TEST(Decompositions, BatchNormGivesTheUnbiasedVariance) {
  Sheet s;
  const Value x = s.number({1, 2, 3, 4}, {4, 1}), eps = s.number({0});
  const auto y = s.apply(Op::batch_norm, {x, kNone, kNone, eps}, {{0}});
  EXPECT_NEAR(y[0].at(0), -1.5 / std::sqrt(1.25), 1e-12);
  EXPECT_NEAR(y[1].at(0), 2.5, 1e-12);
  EXPECT_NEAR(y[2].at(0), 1 / std::sqrt(1.25), 1e-12);
  EXPECT_NEAR(y[3].at(0), 5.0 / 3, 1e-12);
}

TEST(Decompositions, AWeightedLossIsDividedByItsWeights) {
  Sheet s;
  const Value x = s.number({-1, -2, -3, -4, -5, -6}, {2, 3}), weight = s.number({1, 2, 4}, {3});
  const Value target = s.number({1, 2}, {2}, DType::I64);
  const auto y = s.apply(Op::nll_loss, {x, target, weight}, {{1}, {-100}});
  EXPECT_NEAR(y[0].at(0), (2 * 2.0 + 4 * 6.0) / (2 + 4), 1e-12);
  EXPECT_NEAR(y[1].at(0), 6, 1e-12);
}

TEST(Decompositions, AmsgradDividesByTheLargestSquare) {
  for (double known : {0.01, 4.0}) {
    Sheet s;
    const Value x = s.number({1}), g = s.number({0.5}), mean = s.number({0.2}), square = s.number({0.3});
    const Value largest = s.number({known}), step = s.number({3}), rate = s.number({0.1});
    const Value decay1 = s.number({0.1}), decay2 = s.number({0.01}), eps = s.number({1e-8});
    const Value size = s.number({0.1 / (1 - std::pow(0.9, 3))}), root = s.number({std::sqrt(1 - std::pow(0.99, 3))});
    const auto y =
        s.apply(Op::adam_step,
                {x, g, mean, square, largest, step, rate, decay1, decay2, kNone, eps, kNone, kNone, kNone}, {{0}, {0}});
    const auto same =
        s.apply(Op::adam_step,
                {x, g, mean, square, largest, kNone, rate, decay1, decay2, kNone, eps, kNone, size, root}, {{0}, {0}});
    EXPECT_NEAR(same[0].at(0), y[0].at(0), 1e-15);
    const double m = 0.2 * 0.9 + 0.5 * 0.1, v = 0.3 * 0.99 + 0.25 * 0.01, most = std::max(known, v);
    const double unbiased = std::sqrt(most / (1 - std::pow(0.99, 3)));
    EXPECT_NEAR(y[0].at(0), 1 - 0.1 * m / (1 - std::pow(0.9, 3)) / (unbiased + 1e-8), 1e-12);
    EXPECT_NEAR(y[1].at(0), m, 1e-12);
    EXPECT_NEAR(y[2].at(0), v, 1e-12);
    EXPECT_NEAR(y[3].at(0), most, 1e-12);
  }
}

// In a range that holds 0, whose steps are whole here.
TEST(Decompositions, BytesOfTheRangeThatThereIs) {
  Sheet s;
  const Value x = s.number({-10, -0.4, 0.6, 117}, {4}, DType::F32);
  const auto y = s.apply(Op::quantize_dynamic, {x}, {{127}});
  const std::vector<double> bytes{0, 10, 11, 127};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(y[0].at(i), bytes[i] - 128);
  EXPECT_EQ(y[1].at(0), 1);
  EXPECT_EQ(y[2].at(0), 10 - 128);
  Sheet above;
  const auto z = above.apply(Op::quantize_dynamic, {above.number({255, 51}, {2}, DType::F32)}, {{255}});
  EXPECT_EQ(z[0].at(0), 127);
  EXPECT_EQ(z[0].at(1), 51 - 128);
  EXPECT_EQ(z[2].at(0), -128);
}

TEST(Decompositions, NesterovLooksAhead) {
  for (int64_t nesterov : {0, 1}) {
    Sheet s;
    const Value x = s.number({1}), g = s.number({0.5}), velocity = s.number({0.2}), rate = s.number({0.1});
    const Value momentum = s.number({0.9}), gain = s.number({1}), decay = s.number({0.01});
    const auto y = s.apply(Op::sgd_step, {x, g, velocity, rate, momentum, gain, decay, kNone}, {{nesterov}, {0}});
    const double decayed = 0.5 + 0.01, v = 0.2 * 0.9 + decayed;
    EXPECT_NEAR(y[0].at(0), 1 - 0.1 * (nesterov ? decayed + 0.9 * v : v), 1e-12);
    EXPECT_NEAR(y[1].at(0), v, 1e-12);
  }
}

}  // namespace
}  // namespace lazuli::ir::testing
