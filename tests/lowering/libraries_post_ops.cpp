// Post-ops as loops of ours against float64's functions: over the whole range, and with nan, infinities and zeros.
#include <cmath>
#include <limits>
#include <vector>
#include "lowering/libraries/post_ops.h"
#include "tests/lowering/libraries_support.h"

namespace lazuli::lowering {
namespace {

using ir::DType;
using testing::after_post_op;
using testing::layout;
using testing::Tensor;

std::vector<PostOp> functions() {
  std::vector<PostOp> ops;
  for (PostOp::Kind kind : {PostOp::Relu, PostOp::GeluErf, PostOp::GeluTanh, PostOp::Sigmoid, PostOp::Tanh,
                            PostOp::Silu, PostOp::HardSwish})
    ops.push_back({kind});
  for (const auto& [kind, alpha, beta] : {std::tuple{PostOp::Scale, 0.3, 0.0},
                                          {PostOp::LeakyRelu, 0.01, 0.0},
                                          {PostOp::Clamp, 0.0, 6.0},
                                          {PostOp::Clamp, -0.25, 0.5}})
    ops.push_back({kind, {}, alpha, beta});
  return ops;
}

Tensor after(const PostOp& op, DType type, const std::vector<double>& numbers) {
  Tensor x(layout(type, {static_cast<int64_t>(numbers.size())}));
  for (size_t i = 0; i < numbers.size(); ++i) x.set({static_cast<int64_t>(i)}, numbers[i]);
  run_post_ops(std::span(&op, 1), x.layout, x.data(), nullptr);
  EXPECT_TRUE(x.guards_hold());
  return x;
}

TEST(LibrariesPostOps, AreExactToAFewUnits) {
  std::vector<double> numbers;
  for (double size = 1e-30; size < 200; size *= 1.0137) numbers.insert(numbers.end(), {size, -size});
  for (DType type : {DType::F32, DType::F64})
    for (const PostOp& op : functions()) {
      const double unit = type == DType::F32 ? 0x1p-23 : 0x1p-52, least = type == DType::F32 ? 1e-36 : 1e-300;
      Tensor x(layout(type, {static_cast<int64_t>(numbers.size())}));
      const Tensor y = after(op, type, numbers);
      for (int64_t i = 0; i < std::ssize(numbers); ++i) {
        x.set({i}, numbers[i]);
        const double from = x.get({i}), wanted = after_post_op(op, from), most = std::fabs(wanted) * unit * 4 + least;
        // gelu is half of x times a difference from one, in eager too; sums in an exponent are rounded.
        const double lost = op.kind == PostOp::GeluErf    ? std::fabs(from) * unit
                            : op.kind == PostOp::GeluTanh ? std::fabs(wanted) * 1000 * unit
                            : op.kind == PostOp::Silu || op.kind == PostOp::Sigmoid
                                ? std::fabs(wanted) * std::fabs(from) * unit
                                : 0;
        ASSERT_NEAR(y.get({i}), wanted, most + lost) << "kind " << op.kind << " of " << from;
      }
    }
}

TEST(LibrariesPostOps, KeepNanAndInfinities) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<double> numbers{std::nan(""), kInfinity, -kInfinity, 0, -0.0, 3e37, -3e37, 1e-45, -1e-45};
  for (DType type : {DType::F32, DType::F64})
    for (const PostOp& op : functions()) {
      const Tensor y = after(op, type, numbers);
      for (int64_t i = 0; i < std::ssize(numbers); ++i) {
        const double wanted = after_post_op(op, numbers[i]), given = y.get({i});
        if (std::isnan(wanted))
          ASSERT_TRUE(std::isnan(given)) << "kind " << op.kind << " of " << numbers[i] << ": " << given;
        else if (std::isinf(wanted) || wanted == 0)
          ASSERT_EQ(given, wanted) << "kind " << op.kind << " of " << numbers[i];
        else
          ASSERT_NEAR(given, wanted, std::fabs(wanted) * 1e-6 + 1e-44) << "kind " << op.kind << " of " << numbers[i];
      }
    }
}

}  // namespace
}  // namespace lazuli::lowering
