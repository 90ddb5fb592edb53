// Winograd's convolutions against plain sums in float64: shapes, what follows, numbers that are not finite, errors.
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>
#include "lowering/libraries/onednn.h"
#include "lowering/libraries/post_ops.h"
#include "lowering/threads/crew.h"
#include "tests/lowering/libraries_support.h"

namespace lazuli::lowering {
namespace {

using ir::Dims;
using ir::DType;
using testing::expect_close;
using testing::Fenced;
using testing::layout;
using testing::Tensor;

struct WinogradCase {
  Dims x, w;
  int64_t high = 1, wide = 1;  // padding
  Dims y() const { return {x[0], w[0], x[2] + 2 * high - 2, x[3] + 2 * wide - 2}; }
  ConvolutionParams params() const { return {{1, 1}, {high, wide}, {1, 1}, {0, 0}, false, 1}; }
};
Layout last(const Dims& shape) { return layout(DType::F32, shape, {0, 2, 3, 1}); }

PackedCall packed_call(const WinogradCase& c, const Layout& w, const std::vector<PostOp>& ops = {}) {
  return make_packed_convolution(last(c.x), w, last(c.y()), c.params(), ops);
}
// As a slice of an image's channels lies.
Layout with_gaps(const Dims& shape) { return layout(DType::F32, shape, {0, 2, 3, 1}, 24); }
bool is_winograd(const PackedCall& p) { return p.pack && p.call->describe() == "convolution:winograd"; }

Tensor packed(const PackedCall& p, Tensor& w, Tensor* factor = nullptr) {
  Tensor bytes(layout(DType::F32, {static_cast<int64_t>(p.bytes / sizeof(float))}));
  std::vector<Tensor*> inputs{&w};
  if (factor) inputs.push_back(factor);
  testing::run(*p.pack, inputs, {&bytes});
  return bytes;
}

// What rounding may change, in units of a number's own rounding: sums of so many numbers between -1 and 1.
double scale_of(const WinogradCase& c) { return std::sqrt(9.0 * static_cast<double>(int64_t{c.x[1]})); }

// The sum of all products of an output.
double sum_at(const WinogradCase& c, const Tensor& x, const Tensor& w, const Dims& at) {
  double sum = 0;
  for (int64_t k = 0; k < 9; ++k) {
    const int64_t i = at[2] - c.high + k / 3, j = at[3] - c.wide + k % 3;
    if (i < 0 || j < 0 || i >= c.x[2] || j >= c.x[3]) continue;
    for (int64_t channel = 0; channel < c.x[1]; ++channel)
      sum += x.get({at[0], channel, i, j}) * w.get({at[1], channel, k / 3, k % 3});
  }
  return sum;
}

const WinogradCase kCases[] = {
    {{2, 32, 20, 19}, {32, 32, 3, 3}},       {{1, 48, 16, 16}, {48, 48, 3, 3}},
    {{1, 32, 13, 22}, {48, 32, 3, 3}, 0, 0}, {{3, 32, 9, 12}, {80, 32, 3, 3}, 2, 0},
    {{1, 272, 12, 12}, {32, 272, 3, 3}},     {{5, 64, 7, 7}, {64, 64, 3, 3}, 1, 2},
    {{1, 64, 300, 3}, {64, 64, 3, 3}},       {{40, 64, 4, 5}, {64, 64, 3, 3}, 0, 0},
};

TEST(LibrariesWinograd, IsThePlainSum) {
  for (const WinogradCase& c : kCases)
    for (bool turned : {false, true}) {
      Tensor x = Tensor::random(last(c.x), 1), w = Tensor::random(turned ? last(c.w) : layout(DType::F32, c.w), 2),
             y(last(c.y()));
      const PackedCall p = packed_call(c, w.layout);
      ASSERT_TRUE(is_winograd(p));
      Tensor bytes = packed(p, w);
      testing::run(*p.call, {&x, &bytes}, {&y});
      expect_close(y, [&](const Dims& at) { return sum_at(c, x, w, at); }, scale_of(c), "winograd");
    }
}

TEST(LibrariesWinograd, SomeChannelsOfAnImage) {
  for (const WinogradCase& c : kCases) {
    Tensor x = Tensor::random(with_gaps(c.x), 1), w = Tensor::random(layout(DType::F32, c.w), 2), y(last(c.y()));
    x.set({0, 7, 1, 1}, std::numeric_limits<double>::infinity());
    const PackedCall p = make_packed_convolution(x.layout, w.layout, y.layout, c.params());
    ASSERT_TRUE(is_winograd(p));
    Tensor bytes = packed(p, w);
    testing::run(*p.call, {&x, &bytes}, {&y});
    expect_close(y, [&](const Dims& at) { return sum_at(c, x, w, at); }, scale_of(c), "winograd");
  }
}

TEST(LibrariesWinograd, WhatFollows) {
  const WinogradCase c{{2, 32, 13, 11}, {48, 32, 3, 3}};
  const auto with = [](PostOp::Kind kind, Layout operand = {}) { return PostOp{kind, std::move(operand)}; };
  const Layout channel = layout(DType::F32, {1, 48, 1, 1}), image = last(c.y()),
               point = layout(DType::F32, {1, 1, 13, 11});
  PostOp half{PostOp::Scale};
  half.alpha = 0.5;
  const std::vector<std::vector<PostOp>> chains{
      {with(PostOp::Add, channel)},
      {with(PostOp::Relu)},
      {with(PostOp::Add, channel), with(PostOp::Relu)},
      {with(PostOp::Add, channel), with(PostOp::Add, image), with(PostOp::Relu)},
      {with(PostOp::Mul, channel), with(PostOp::Add, channel), with(PostOp::HardSwish)},
      {with(PostOp::Relu), with(PostOp::Add, point), half},
      {with(PostOp::Mul, image), with(PostOp::Add, channel), with(PostOp::Relu)},
      {with(PostOp::Add, point), with(PostOp::Relu)},
      {with(PostOp::Add, channel), with(PostOp::Silu), with(PostOp::Add, image)},
      {with(PostOp::Mul, channel), with(PostOp::Add, channel), PostOp{PostOp::Clamp, {}, 0, 6}},
      {PostOp{PostOp::LeakyRelu, {}, 0.1}, with(PostOp::Tanh)},
  };
  for (const auto& ops : chains) {
    Tensor x = Tensor::random(last(c.x), 1), w = Tensor::random(layout(DType::F32, c.w), 2), y(last(c.y()));
    std::vector<Tensor> operands;
    for (const PostOp& op : ops)
      if (has_operand(op)) operands.push_back(Tensor::random(op.operand, 3 + operands.size()));
    const PackedCall p = packed_call(c, w.layout, ops);
    ASSERT_TRUE(is_winograd(p));
    Tensor bytes = packed(p, w);
    std::vector<Tensor*> inputs{&x, &bytes};
    for (Tensor& o : operands) inputs.push_back(&o);
    testing::run(*p.call, inputs, {&y});
    expect_close(
        y,
        [&](const Dims& at) { return testing::after_post_ops(sum_at(c, x, w, at), ops, operands, at, y.layout.shape); },
        4, "winograd");
  }
}

// A factor that the next run will have again goes into the weights.
TEST(LibrariesWinograd, ScaledWeights) {
  const WinogradCase c{{2, 32, 13, 11}, {48, 32, 3, 3}};
  PostOp scale{PostOp::Mul, layout(DType::F32, {1, 48, 1, 1})};
  scale.steady = true;
  Tensor x = Tensor::random(last(c.x), 1), w = Tensor::random(layout(DType::F32, c.w), 2), y(last(c.y())),
         factor = Tensor::random(scale.operand, 3);
  const PackedCall p = packed_call(c, w.layout, {scale});
  ASSERT_TRUE(is_winograd(p));
  EXPECT_EQ(p.factor_bytes, 48 * sizeof(float));
  Tensor bytes = packed(p, w, &factor);
  testing::run(*p.call, {&x, &bytes}, {&y});
  expect_close(y, [&](const Dims& at) { return sum_at(c, x, w, at) * factor.get({0, at[1], 0, 0}); }, 4, "winograd");
}

TEST(LibrariesWinograd, PackedWeightsSayAllOfThem) {
  for (const WinogradCase& c : kCases)
    for (bool turned : {false, true}) {
      Tensor w = Tensor::random(turned ? last(c.w) : layout(DType::F32, c.w), 2), again(w.layout);
      const PackedCall p = packed_call(c, w.layout);
      ASSERT_TRUE(is_winograd(p) && p.unpacking);
      EXPECT_EQ(p.unpacked_bytes, static_cast<size_t>(ir::product(c.w)) * sizeof(float));
      Tensor bytes = packed(p, w);
      testing::run(*p.unpacking(), {&bytes}, {&again});
      w.each([&](const Dims& at) { ASSERT_EQ(again.get(at), w.get(at)); });
    }
}

// Only the outputs that read a number see it, and they are what a plain sum gives.
TEST(LibrariesWinograd, NumbersThatAreNotFinite) {
  const WinogradCase c{{1, 32, 12, 13}, {64, 32, 3, 3}};
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double number : {kInfinity, -kInfinity, std::nan(""), 3e38})
    for (const auto& [i, j] : {std::pair{0, 0}, {5, 5}, {5, 6}, {6, 5}, {6, 6}, {11, 12}})
      for (bool relu : {false, true}) {
        Tensor x = Tensor::random(last(c.x), 1), w = Tensor::random(layout(DType::F32, c.w), 2), y(last(c.y()));
        w.each([&](const Dims& at) {
          if (number == 3e38) w.set(at, std::fabs(w.get(at)) / 8);
          if (at[0] == 3) w.set(at, 0);
        });
        x.set({0, 4, i, j}, number);
        x.set({0, 5, 2, 9}, -number);
        std::vector<PostOp> ops;
        if (relu) ops.push_back({PostOp::Relu});
        const PackedCall p = packed_call(c, w.layout, ops);
        ASSERT_TRUE(is_winograd(p));
        Tensor bytes = packed(p, w);
        testing::run(*p.call, {&x, &bytes}, {&y});
        y.each([&](const Dims& at) {
          const double sum = sum_at(c, x, w, at), wanted = relu && sum < 0 ? 0 : sum;
          if (std::isnan(wanted))
            ASSERT_TRUE(std::isnan(y.get(at)));
          else if (std::isinf(wanted))
            ASSERT_EQ(y.get(at), wanted);
          else
            ASSERT_NEAR(y.get(at), wanted, number == 3e38 ? 1e-6 * number : 5e-5);
        });
      }
}

TEST(LibrariesWinograd, TheBitsDoNotDependOnThreads) {
  for (const WinogradCase& c : kCases) {
    Tensor x = Tensor::random(last(c.x), 1), w = Tensor::random(layout(DType::F32, c.w), 2), first(last(c.y()));
    for (int threads : {1, 2, 3}) {
      const Threads some(threads);
      Tensor y(first.layout);
      const PackedCall p = packed_call(c, w.layout);
      ASSERT_TRUE(is_winograd(p));
      Tensor bytes = packed(p, w);
      testing::run(*p.call, {&x, &bytes}, {threads == 1 ? &first : &y});
      if (threads > 1) y.each([&](const Dims& at) { ASSERT_EQ(y.get(at), first.get(at)); });
    }
  }
}

TEST(LibrariesWinograd, ReadsNothingBesideTheImage) {
  for (const WinogradCase& c : kCases) {
    Tensor x = Tensor::random(last(c.x), 1), w = Tensor::random(layout(DType::F32, c.w), 2), y(last(c.y()));
    const PackedCall p = packed_call(c, w.layout);
    ASSERT_TRUE(is_winograd(p));
    Tensor bytes = packed(p, w);
    const Fenced fx(x), fw(bytes);
    std::vector<float> scratch(p.call->scratch_bytes() / sizeof(float) + 32);
    const void* operands[] = {fx.data(), fw.data()};
    void* results[] = {y.data()};
    p.call->run(operands, results,
                reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64));
    expect_close(y, [&](const Dims& at) { return sum_at(c, x, w, at); }, scale_of(c), "winograd");
  }
}

// Its errors are no larger than those of a sum that is made one product after the other.
TEST(LibrariesWinograd, IsAsExactAsAPlainSum) {
  const WinogradCase c{{1, 64, 24, 24}, {32, 64, 3, 3}};
  for (double low : {-1.0, 0.0}) {
    Tensor x = Tensor::random(last(c.x), 1, low, 1), w = Tensor::random(layout(DType::F32, c.w), 2), y(last(c.y()));
    const PackedCall p = packed_call(c, w.layout);
    ASSERT_TRUE(is_winograd(p));
    Tensor bytes = packed(p, w);
    testing::run(*p.call, {&x, &bytes}, {&y});
    Tensor plain(y.layout);
    testing::run(*make_convolution(x.layout, w.layout, y.layout, c.params()), {&x, &w}, {&plain});
    double ours = 0, others = 0;
    y.each([&](const Dims& at) {
      const double exact = sum_at(c, x, w, at);
      ours += std::pow(y.get(at) - exact, 2), others += std::pow(plain.get(at) - exact, 2);
    });
    EXPECT_LT(ours, others);
  }
}

TEST(LibrariesWinograd, OthersArePlainSums) {
  const auto is = [](const Dims& x, const Dims& w, const ConvolutionParams& params, bool channels_last = true,
                     DType type = DType::F32) {
    Dims y{x[0], w[0], 0, 0};
    for (size_t d : {0, 1})
      y[2 + d] = (x[2 + d] + 2 * params.padding[d] - params.dilation[d] * (w[2 + d] - 1) - 1) / params.stride[d] + 1;
    const auto order = channels_last ? std::vector<size_t>{0, 2, 3, 1} : std::vector<size_t>{};
    return is_winograd(
        make_packed_convolution(layout(type, x, order), layout(type, w), layout(type, y, order), params, {}));
  };
  const Dims x{2, 32, 20, 20}, w{32, 32, 3, 3};
  const ConvolutionParams plain{{1, 1}, {1, 1}, {1, 1}, {0, 0}, false, 1};
  EXPECT_TRUE(is(x, w, plain));
  EXPECT_FALSE(is(x, w, plain, false));
  EXPECT_FALSE(is(x, w, plain, true, DType::BF16));
  EXPECT_FALSE(is(x, {32, 32, 1, 1}, plain));
  EXPECT_FALSE(is(x, {32, 32, 3, 1}, plain));
  EXPECT_FALSE(is(x, {32, 32, 5, 5}, plain));
  EXPECT_FALSE(is(x, {32, 16, 3, 3}, {{1, 1}, {1, 1}, {1, 1}, {0, 0}, false, 2}));
  EXPECT_FALSE(is(x, w, {{2, 1}, {1, 1}, {1, 1}, {0, 0}, false, 1}));
  EXPECT_FALSE(is(x, w, {{1, 1}, {2, 2}, {2, 2}, {0, 0}, false, 1}));
  EXPECT_FALSE(is({2, 31, 20, 20}, {32, 31, 3, 3}, plain));
  EXPECT_FALSE(is(x, {33, 32, 3, 3}, plain));
  EXPECT_FALSE(is({1, 32, 4, 4}, w, plain));                  // little to do
  EXPECT_FALSE(is({1, 512, 7, 7}, {512, 512, 3, 3}, plain));  // weights cost more than sums
}

}  // namespace
}  // namespace lazuli::lowering
