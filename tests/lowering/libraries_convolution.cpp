// Convolutions and their gradients against plain loops in float64.
#include <map>
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

// Calls f(x index, w index, y index) for every product in the plain convolution that maps x to y.
template <class F>
void each_product(const Dims& x, const Dims& w, const Dims& y, const ConvolutionParams& p, F f) {
  const size_t rank = x.size();
  Tensor space(layout(DType::U8, w)), outs(layout(DType::U8, y));
  outs.each([&](const Dims& o) {
    const int64_t group = o[1] / (w[0] / p.groups);
    space.each([&](const Dims& k) {
      if (k[0] != o[1]) return;
      Dims i = o;
      i[1] = group * w[1] + k[1];
      for (size_t d = 2; d < rank; ++d) {
        i[d] = o[d] * p.stride[d - 2] - p.padding[d - 2] + k[d] * p.dilation[d - 2];
        if (i[d] < 0 || i[d] >= x[d]) return;
      }
      f(i, k, o);
    });
  });
}

struct Case {
  Dims x, w;
  ConvolutionParams p;
  // The shape of the result, torch's formulas.
  Dims y() const {
    Dims out = x;
    out[1] = p.transposed ? w[1] * p.groups : w[0];
    for (size_t d = 2; d < x.size(); ++d) {
      const int64_t s = p.stride[d - 2], pad = p.padding[d - 2], span = p.dilation[d - 2] * (w[d] - 1);
      out[d] = p.transposed ? (x[d] - 1) * s - 2 * pad + span + p.output_padding[d - 2] + 1
                            : (x[d] + 2 * pad - span - 1) / s + 1;
    }
    return out;
  }
};

Case make_case(Dims x, Dims w, int64_t stride = 1, int64_t padding = 0, int64_t dilation = 1, int64_t groups = 1,
               bool transposed = false, int64_t output_padding = 0) {
  const size_t n = x.size() - 2;
  return {x, w, {Dims(n, stride), Dims(n, padding), Dims(n, dilation), Dims(n, output_padding), transposed, groups}};
}

std::vector<size_t> order(size_t rank, bool channels_last) {
  std::vector<size_t> out{0};
  if (!channels_last) out.push_back(1);
  for (size_t d = 2; d < rank; ++d) out.push_back(d);
  if (channels_last) out.push_back(1);
  return out;
}

Layout laid_out(DType t, const Dims& shape, bool channels_last) {
  return layout(t, shape, order(shape.size(), channels_last));
}
Layout images(const Dims& shape) { return laid_out(DType::F32, shape, true); }

using Sums = std::vector<double>;

// Forward and both gradients of `c`, every operand in the given layout.
void check(const Case& c, DType t, bool channels_last, std::vector<PostOp> ops = {}, Effort effort = Effort::Much) {
  const Dims y_shape = c.y();
  const Layout of_x = laid_out(t, c.x, channels_last), of_w = laid_out(t, c.w, channels_last),
               of_y = laid_out(t, y_shape, channels_last);
  Tensor x = Tensor::random(of_x, 1), w = Tensor::random(of_w, 2), gy = Tensor::random(of_y, 3);
  Tensor y(of_y), gx(of_x), gw(of_w);
  for (Tensor* result : {&y, &gx, &gw}) result->each([&](const Dims& at) { result->set(at, 99); });

  Tensor sums_y(layout(DType::F64, y_shape)), sums_x(layout(DType::F64, c.x)), sums_w(layout(DType::F64, c.w));
  for (Tensor* s : {&sums_y, &sums_x, &sums_w}) s->each([&](const Dims& at) { s->set(at, 0); });
  const Dims& in = c.p.transposed ? y_shape : c.x;
  const Dims& out = c.p.transposed ? c.x : y_shape;
  each_product(in, c.w, out, c.p, [&](const Dims& i, const Dims& k, const Dims& o) {
    const Dims& ix = c.p.transposed ? o : i;
    const Dims& iy = c.p.transposed ? i : o;
    sums_y.set(iy, sums_y.get(iy) + x.get(ix) * w.get(k));
    sums_x.set(ix, sums_x.get(ix) + gy.get(iy) * w.get(k));
    sums_w.set(k, sums_w.get(k) + gy.get(iy) * x.get(ix));
  });

  std::vector<Tensor> operands;
  std::vector<Tensor*> inputs{&x, &w};
  for (PostOp& op : ops)
    if (has_operand(op)) operands.push_back(Tensor::random(op.operand, 4 + operands.size()));
  for (Tensor& o : operands) inputs.push_back(&o);
  auto call = make_convolution(x.layout, w.layout, y.layout, c.p, ops, effort);
  testing::run(*call, inputs, {&y});
  expect_close(
      y, [&](const Dims& at) { return testing::after_post_ops(sums_y.get(at), ops, operands, at, y_shape); }, 4,
      "forward " + call->describe());

  auto input_grad = make_convolution_input_grad(gy.layout, w.layout, gx.layout, c.p, effort);
  testing::run(*input_grad, {&gy, &w}, {&gx});
  expect_close(gx, [&](const Dims& at) { return sums_x.get(at); }, 4, "input gradient " + input_grad->describe());

  auto weight_grad = make_convolution_weight_grad(gy.layout, x.layout, gw.layout, c.p, effort);
  testing::run(*weight_grad, {&gy, &x}, {&gw});
  expect_close(gw, [&](const Dims& at) { return sums_w.get(at); }, 8, "weight gradient " + weight_grad->describe());
}

void check_all(const Case& c, std::vector<PostOp> (*ops)(DType) = nullptr) {
  for (DType t : {DType::F32, DType::BF16, DType::F16, DType::F64})
    for (bool channels_last : {false, true}) {
      SCOPED_TRACE(std::string(ir::name(t)) + (channels_last ? " channels-last" : " row-major"));
      check(c, t, channels_last, ops ? ops(t) : std::vector<PostOp>{});
      if (t == DType::F32) check(c, t, channels_last, ops ? ops(t) : std::vector<PostOp>{}, Effort::Little);
    }
}

TEST(LibrariesConvolution, Kernel3x3) { check_all(make_case({2, 16, 9, 11}, {32, 16, 3, 3}, 1, 1)); }
TEST(LibrariesConvolution, Kernel1x1) { check_all(make_case({2, 16, 9, 11}, {32, 16, 1, 1})); }
TEST(LibrariesConvolution, FirstLayer) { check_all(make_case({2, 3, 14, 14}, {16, 3, 7, 7}, 2, 3)); }
TEST(LibrariesConvolution, OddChannels) { check_all(make_case({2, 5, 8, 8}, {7, 5, 3, 3}, 1, 1)); }
TEST(LibrariesConvolution, OneChannel) { check_all(make_case({2, 1, 8, 8}, {8, 1, 3, 3}, 1, 1)); }
TEST(LibrariesConvolution, StrideThatLeavesInputUnread) { check_all(make_case({2, 16, 10, 12}, {16, 16, 3, 3}, 3, 0)); }
TEST(LibrariesConvolution, Stride2) { check_all(make_case({2, 16, 9, 10}, {32, 16, 3, 3}, 2, 1)); }
TEST(LibrariesConvolution, Stride2Kernel1) { check_all(make_case({2, 16, 9, 10}, {32, 16, 1, 1}, 2, 0)); }
TEST(LibrariesConvolution, Dilation) { check_all(make_case({2, 16, 11, 11}, {16, 16, 3, 3}, 1, 2, 2)); }
TEST(LibrariesConvolution, Groups) { check_all(make_case({2, 32, 7, 7}, {32, 8, 3, 3}, 1, 1, 1, 4)); }
TEST(LibrariesConvolution, Depthwise) { check_all(make_case({2, 32, 7, 7}, {32, 1, 3, 3}, 1, 1, 1, 32)); }
TEST(LibrariesConvolution, DepthwiseWithMultiplier) { check_all(make_case({2, 6, 7, 7}, {12, 1, 3, 3}, 1, 1, 1, 6)); }
TEST(LibrariesConvolution, PaddingBeyondKernel) { check_all(make_case({1, 16, 5, 5}, {16, 16, 3, 3}, 1, 4)); }
TEST(LibrariesConvolution, OneDimension) { check_all(make_case({2, 16, 21}, {24, 16, 5}, 2, 2)); }
TEST(LibrariesConvolution, ThreeDimensions) { check_all(make_case({1, 16, 5, 6, 7}, {16, 16, 3, 3, 3}, 1, 1)); }
TEST(LibrariesConvolution, Transposed) { check_all(make_case({2, 16, 7, 7}, {16, 24, 3, 3}, 2, 1, 1, 1, true)); }
TEST(LibrariesConvolution, TransposedWithOutputPadding) {
  check_all(make_case({2, 16, 7, 7}, {16, 24, 3, 3}, 2, 1, 1, 1, true, 1));
}
TEST(LibrariesConvolution, TransposedWithOutputPaddingFromDilation) {
  check_all(make_case({1, 8, 6, 6}, {8, 8, 3, 3}, 1, 1, 3, 1, true, 2));
}
TEST(LibrariesConvolution, TransposedGroups) { check_all(make_case({2, 16, 7, 7}, {16, 4, 3, 3}, 2, 1, 1, 2, true)); }
TEST(LibrariesConvolution, WindowsThatTileTheInput) { check_all(make_case({2, 3, 12, 16}, {10, 3, 4, 4}, 4)); }
TEST(LibrariesConvolution, WindowsThatTileTheResult) {
  check_all(make_case({2, 5, 3, 4}, {5, 6, 4, 4}, 4, 0, 1, 1, true));
}
TEST(LibrariesConvolution, BatchOfOne) { check_all(make_case({1, 16, 1, 1}, {32, 16, 1, 1})); }

TEST(LibrariesConvolution, BiasActivationResidual) {
  check_all(make_case({2, 16, 9, 11}, {32, 16, 3, 3}, 1, 1), [](DType t) {
    return std::vector<PostOp>{
        {PostOp::Add, layout(t, {32, 1, 1})}, {PostOp::Relu}, {PostOp::Add, layout(t, {2, 32, 9, 11})}, {PostOp::Silu}};
  });
}
TEST(LibrariesConvolution, TransposedWithBiasAndActivation) {
  check_all(make_case({2, 16, 7, 7}, {16, 24, 3, 3}, 2, 1, 1, 1, true),
            [](DType t) { return std::vector<PostOp>{{PostOp::Add, layout(t, {24, 1, 1})}, {PostOp::Tanh}}; });
}

TEST(LibrariesConvolution, BiasScaleResidual) {
  check_all(make_case({2, 16, 9, 11}, {20, 16, 3, 3}, 1, 1), [](DType t) {
    return std::vector<PostOp>{{PostOp::Add, layout(t, {20, 1, 1})},
                               {PostOp::Mul, layout(t, {2, 20, 1, 1})},
                               {PostOp::Add, layout(t, {2, 20, 9, 11})},
                               {PostOp::Relu}};
  });
}

// Our own convolution: sizes beyond one of its tiles, panels and blocks, on several threads.
void check_own(const Case& c, std::vector<PostOp> ops = {}) {
  for (int threads : {1, 3}) {
    const Threads some(threads);
    for (bool channels_last : {false, true}) {
      SCOPED_TRACE(std::to_string(threads) + (channels_last ? " threads, channels-last" : " threads, row-major"));
      check(c, DType::F32, channels_last, ops, Effort::Little);
    }
  }
}
TEST(LibrariesConvolution, OwnDeepSums) { check_own(make_case({2, 60, 5, 4}, {20, 60, 3, 3}, 1, 1)); }
TEST(LibrariesConvolution, OwnDeepSumsOfOneTap) { check_own(make_case({3, 300, 3, 4}, {33, 300, 1, 1})); }
TEST(LibrariesConvolution, OwnManySmallImages) { check_own(make_case({14, 12, 3, 4}, {20, 12, 3, 3}, 1, 1)); }
TEST(LibrariesConvolution, OwnManySmallImagesOfOneTap) { check_own(make_case({30, 13, 3, 3}, {20, 13, 1, 1})); }
TEST(LibrariesConvolution, OwnManyRows) { check_own(make_case({1, 3, 60, 20}, {9, 3, 3, 3}, 1, 1)); }
TEST(LibrariesConvolution, OwnWideRows) { check_own(make_case({1, 2, 2, 700}, {5, 2, 3, 3}, 1, 1)); }
TEST(LibrariesConvolution, OwnManyColumns) { check_own(make_case({1, 8, 5, 5}, {130, 8, 3, 3}, 2, 1)); }
TEST(LibrariesConvolution, OwnStrideBeyondKernel) { check_own(make_case({2, 6, 20, 16}, {17, 6, 2, 2}, 3, 1)); }
TEST(LibrariesConvolution, OwnStrideAndDilation) { check_own(make_case({2, 12, 17, 15}, {12, 12, 3, 3}, 2, 3, 2)); }
TEST(LibrariesConvolution, OwnPaddingBeyondKernel) { check_own(make_case({1, 6, 5, 6}, {10, 6, 3, 3}, 1, 4)); }
TEST(LibrariesConvolution, OwnLargeDilation) { check_own(make_case({1, 6, 11, 12}, {10, 6, 3, 3}, 1, 5, 5)); }
TEST(LibrariesConvolution, OwnTransposed) { check_own(make_case({2, 12, 7, 6}, {12, 20, 3, 3}, 2, 1, 1, 1, true, 1)); }
TEST(LibrariesConvolution, OwnVolumes) { check_own(make_case({1, 4, 5, 8, 7}, {10, 4, 3, 2, 3}, 2, 1)); }
TEST(LibrariesConvolution, OwnSequences) { check_own(make_case({3, 10, 100}, {20, 10, 7}, 2, 3)); }
TEST(LibrariesConvolution, OwnPostOps) {
  check_own(make_case({1, 6, 13, 15}, {36, 6, 3, 3}, 1, 1), {{PostOp::Add, layout(DType::F32, {36, 1, 1})},
                                                             {PostOp::Relu},
                                                             {PostOp::Mul, layout(DType::F32, {1, 36, 13, 15})},
                                                             {PostOp::Scale, {}, 0.5}});
}

Case depthwise(Dims x, Dims kernel, int64_t stride = 1, int64_t padding = 0, int64_t dilation = 1,
               bool transposed = false) {
  const int64_t channels = x[1];
  Dims w{channels, 1};
  w.append(kernel);
  return make_case(std::move(x), std::move(w), stride, padding, dilation, channels, transposed);
}
TEST(LibrariesConvolution, OwnDepthwise) { check_own(depthwise({2, 20, 13, 19}, {3, 3}, 1, 1)); }
TEST(LibrariesConvolution, OwnDepthwiseOfManyRows) { check_own(depthwise({1, 9, 70, 41}, {5, 5}, 1, 2)); }
TEST(LibrariesConvolution, OwnDepthwiseOfWideKernels) { check_own(depthwise({1, 17, 12, 30}, {4, 9}, 1, 4)); }
TEST(LibrariesConvolution, OwnDepthwiseOfTallKernels) { check_own(depthwise({1, 8, 30, 8}, {11, 1}, 1, 5)); }
TEST(LibrariesConvolution, OwnDepthwiseOfOneTap) { check_own(depthwise({3, 5, 6, 7}, {1, 1})); }
TEST(LibrariesConvolution, OwnDepthwiseOfOnePoint) { check_own(depthwise({2, 40, 1, 1}, {3, 3}, 2, 1)); }
TEST(LibrariesConvolution, OwnDepthwiseWithStride) { check_own(depthwise({2, 24, 17, 22}, {5, 5}, 2, 2)); }
TEST(LibrariesConvolution, OwnDepthwiseWithStrideBeyondKernel) { check_own(depthwise({2, 6, 20, 16}, {2, 2}, 3, 1)); }
TEST(LibrariesConvolution, OwnDepthwiseWithStrideAndDilation) {
  check_own(depthwise({1, 12, 19, 15}, {3, 3}, 2, 3, 2));
}
TEST(LibrariesConvolution, OwnDepthwisePaddingBeyondKernel) { check_own(depthwise({1, 6, 5, 6}, {3, 3}, 1, 4)); }
TEST(LibrariesConvolution, OwnDepthwiseTransposed) { check_own(depthwise({2, 12, 7, 6}, {3, 3}, 2, 1, 1, true)); }
TEST(LibrariesConvolution, OwnDepthwiseVolumes) { check_own(depthwise({1, 10, 5, 8, 7}, {3, 2, 3}, 2, 1)); }
TEST(LibrariesConvolution, OwnDepthwiseSequences) { check_own(depthwise({3, 10, 100}, {7}, 2, 3)); }
TEST(LibrariesConvolution, OwnDepthwisePostOps) {
  check_own(depthwise({1, 37, 13, 15}, {3, 3}, 1, 1), {{PostOp::Add, layout(DType::F32, {37, 1, 1})},
                                                       {PostOp::Relu},
                                                       {PostOp::Mul, layout(DType::F32, {1, 37, 13, 15})},
                                                       {PostOp::Scale, {}, 0.5}});
}
TEST(LibrariesConvolution, DepthwiseIsOursWhereNothingMayTakeLong) {
  const Layout x = layout(DType::F32, {2, 8, 9, 9}), w = layout(DType::F32, {8, 1, 5, 5});
  const ConvolutionParams p{{1, 1}, {2, 2}, {1, 1}, {0, 0}, false, 8};
  EXPECT_EQ(make_convolution(x, w, x, p, {}, Effort::Little)->describe(), "convolution:depthwise");
  EXPECT_EQ(make_convolution_input_grad(x, w, x, p, Effort::Little)->describe(), "convolution_input_grad:depthwise");
  EXPECT_EQ(make_convolution_weight_grad(x, x, w, p)->describe(), "convolution_weight_grad:depthwise");
}

// Rows that are enormous for their kernel's reach are not copied.
TEST(LibrariesConvolution, OwnDepthwiseIsOfTilesThatFit) {
  const Layout x = layout(DType::F32, {1, 2, 8, 8}), w = layout(DType::F32, {2, 1, 3, 3});
  const ConvolutionParams p{{1, 1}, {30000, 30000}, {30000, 30000}, {0, 0}, false, 2};
  EXPECT_NE(make_convolution_weight_grad(x, x, w, p, Effort::Little)->describe(), "convolution_weight_grad:depthwise");
}

// What follows a transposed convolution is done in the order of memory, whatever that is.
TEST(LibrariesConvolution, WhatFollowsATransposedOne) {
  const Case c = make_case({2, 6, 5, 7}, {6, 10, 2, 2}, 2, 0, 1, 1, true);
  for (bool channels_last : {false, true})
    for (DType type : {DType::F32, DType::BF16}) {
      const PostOp channel{PostOp::Add, layout(type, {1, 10, 1, 1})}, row{PostOp::Mul, layout(type, {1, 1, 10, 1})},
          all{PostOp::Add, laid_out(type, c.y(), !channels_last)};
      check(c, type, channels_last, {channel, {PostOp::Relu}});
      check(c, type, channels_last, {row, all, {PostOp::GeluErf}});
    }
}

// Some channels of a channels-last image are copied as they lie.
TEST(LibrariesConvolution, SomeChannelsOfAnImage) {
  for (const Case& c : {make_case({2, 24, 9, 8}, {40, 24, 3, 3}, 2, 1), make_case({2, 24, 9, 8}, {40, 24, 1, 1}),
                        make_case({1, 24, 9, 8}, {24, 1, 3, 3}, 1, 1, 1, 24)}) {
    Tensor x = Tensor::random(layout(DType::F32, c.x, {0, 2, 3, 1}, 40), 1),
           w = Tensor::random(layout(DType::F32, c.w), 2), y(images(c.y())), again(y.layout);
    const PostOp add{PostOp::Add, layout(DType::F32, {1, c.w[0], 1, 1})};
    Tensor bias = Tensor::random(add.operand, 3), dense = Tensor::random(images(c.x), 1), expected(y.layout);
    dense.each([&](const Dims& at) { dense.set(at, x.get(at)); });
    testing::run(*make_convolution(dense.layout, w.layout, y.layout, c.p, {{add}}), {&dense, &w, &bias}, {&expected});
    testing::run(*make_convolution(x.layout, w.layout, y.layout, c.p, {{add}}), {&x, &w, &bias}, {&y});
    const auto at_expected = [&](const Dims& at) { return expected.get(at); };
    expect_close(y, at_expected, 1, "some channels");
    const PackedCall p = make_packed_convolution(x.layout, w.layout, y.layout, c.p, {{add}});
    if (!p.pack) continue;
    Tensor packed(layout(DType::U8, {static_cast<int64_t>(p.bytes)}));
    testing::run(*p.pack, {&w}, {&packed});
    testing::run(*p.call, {&x, &packed, &bias}, {&again});
    expect_close(again, at_expected, 1, "some channels, packed");
    EXPECT_EQ(p.call->describe().find("reorder"), std::string::npos) << p.call->describe();
  }
}

// As in the gates of squeeze-and-excitation: a product, whatever the numbers of spatial dimensions.
TEST(LibrariesConvolution, SinglePoints) {
  for (const Case& c : {make_case({9, 140, 1, 1}, {72, 140, 1, 1}), make_case({1, 140, 1}, {72, 140, 1}),
                        make_case({40, 6, 1, 1, 1}, {1, 6, 1, 1, 1}), make_case({3, 140, 1, 1}, {8, 140, 1, 1}, 2)})
    for (bool channels_last : {false, true}) {
      Dims channel(c.x.size(), 1), sample = channel;
      channel[1] = c.w[0], sample[0] = c.x[0];
      const PostOp bias{PostOp::Add, layout(DType::F32, channel)}, scale{PostOp::Mul, layout(DType::F32, sample)},
          all{PostOp::Add, laid_out(DType::F32, c.y(), channels_last)};
      check(c, DType::F32, channels_last);
      check(c, DType::F32, channels_last, {bias, {PostOp::Relu}});
      check(c, DType::F32, channels_last, {bias, {PostOp::Silu}, scale, all});

      Tensor x = Tensor::random(laid_out(DType::F32, c.x, channels_last), 1),
             w = Tensor::random(layout(DType::F32, c.w), 2), b = Tensor::random(bias.operand, 3);
      Tensor expected(laid_out(DType::F32, c.y(), channels_last)), y(expected.layout);
      const std::vector<PostOp> ops{bias, {PostOp::Relu}};
      const auto call = make_convolution(x.layout, w.layout, y.layout, c.p, ops);
      EXPECT_EQ(call->describe().find("conv"), std::string::npos) << call->describe();
      testing::run(*call, {&x, &w, &b}, {&expected});
      const PackedCall p = make_packed_convolution(x.layout, w.layout, y.layout, c.p, ops);
      if (!p.pack) continue;
      Tensor packed(layout(DType::U8, {static_cast<int64_t>(p.bytes)}));
      testing::run(*p.pack, {&w}, {&packed});
      testing::run(*p.call, {&x, &packed, &b}, {&y});
      expect_close(y, [&](const Dims& at) { return expected.get(at); }, 4, "packed " + p.call->describe());
    }
}

// The packed call computes what the other does, bit for bit; what has the same order has the same bytes.
TEST(LibrariesConvolution, OwnPackedWeights) {
  std::map<std::string, std::vector<double>> by_order;
  for (const Case& c :
       {make_case({2, 60, 9, 8}, {24, 60, 3, 3}, 1, 1), make_case({2, 60, 9, 8}, {24, 60, 3, 3}, 1, 2, 2),
        make_case({1, 60, 5, 8}, {24, 60, 3, 3}, 2, 1), make_case({4, 60, 9, 8}, {24, 60, 1, 1})})
    for (bool channels_last : {false, true}) {
      Tensor x = Tensor::random(laid_out(DType::F32, c.x, channels_last), 1),
             w = Tensor::random(layout(DType::F32, c.w), 2);
      Tensor expected(laid_out(DType::F32, c.y(), channels_last)), y(expected.layout);
      testing::run(*make_convolution(x.layout, w.layout, y.layout, c.p, {}, Effort::Little), {&x, &w}, {&expected});
      const PackedCall p = make_packed_convolution(x.layout, w.layout, y.layout, c.p, {}, Effort::Little);
      ASSERT_TRUE(p.pack && p.call);
      Tensor packed(layout(DType::F32, {static_cast<int64_t>(p.bytes / sizeof(float))}));
      testing::run(*p.pack, {&w}, {&packed});
      testing::run(*p.call, {&x, &packed}, {&y});
      y.each([&](const Dims& at) { ASSERT_EQ(y.get(at), expected.get(at)); });
      std::vector<double> bytes;
      packed.each([&](const Dims& at) { bytes.push_back(packed.get(at)); });
      EXPECT_EQ(by_order.try_emplace(p.order, bytes).first->second, bytes) << p.order;
    }
  EXPECT_EQ(by_order.size(), 3u);
}

// Blocks of rows that end behind an image, which is read where it lies, read nothing there.
TEST(LibrariesConvolution, OwnReadsNothingBehindImages) {
  for (const Case& c : {make_case({1, 64, 8, 1, 1}, {64, 64, 1, 1, 1}), make_case({25, 128, 1, 1}, {128, 128, 1, 1}),
                        make_case({32, 256, 1, 1}, {64, 256, 1, 1}), make_case({1, 1, 8, 1, 1}, {16, 1, 1, 1, 1}),
                        make_case({385, 1, 1, 1}, {16, 1, 1, 1}), make_case({3, 5, 7, 7}, {9, 5, 3, 3}, 1, 1),
                        depthwise({2, 13, 7, 21}, {3, 3}, 1, 1)})
    for (int threads : {1, 2, 3}) {
      const Threads some(threads);
      Tensor x = Tensor::random(images(c.x), 1), w = Tensor::random(layout(DType::F32, c.w), 2),
             gy = Tensor::random(images(c.y()), 3);
      Tensor y(gy.layout), gx(x.layout), gw(w.layout);
      const Fenced fx(x), fw(w), fgy(gy);
      const auto run = [](std::unique_ptr<LibraryCall> call, const Fenced& a, const Fenced& b, Tensor& result) {
        std::vector<float> scratch(call->scratch_bytes() / sizeof(float) + 32);
        const void* operands[] = {a.data(), b.data()};
        void* results[] = {result.data()};
        call->run(operands, results,
                  reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64));
      };
      run(make_convolution(x.layout, w.layout, y.layout, c.p, {}, Effort::Little), fx, fw, y);
      run(make_convolution_input_grad(gy.layout, w.layout, gx.layout, c.p, Effort::Little), fgy, fw, gx);
      run(make_convolution_weight_grad(gy.layout, x.layout, gw.layout, c.p, Effort::Little), fgy, fx, gw);
    }
}

// The bits do not depend on how many threads there are.
TEST(LibrariesConvolution, OwnBitsOnAnyNumberOfThreads) {
  for (const Case& c : {make_case({5, 24, 20, 21}, {40, 24, 3, 3}, 1, 1), depthwise({4, 21, 40, 33}, {5, 5}, 2, 2)}) {
    Tensor x = Tensor::random(images(c.x), 1), w = Tensor::random(layout(DType::F32, c.w), 2),
           gy = Tensor::random(images(c.y()), 3);
    std::vector<Tensor> first;
    for (int threads : {1, 2, 5}) {
      const Threads some(threads);
      std::vector<Tensor> results;
      for (const Layout& l : {gy.layout, x.layout, w.layout}) results.emplace_back(l);
      const auto y = make_convolution(x.layout, w.layout, gy.layout, c.p, {}, Effort::Little);
      const auto gx = make_convolution_input_grad(gy.layout, w.layout, x.layout, c.p, Effort::Little);
      const auto gw = make_convolution_weight_grad(gy.layout, x.layout, w.layout, c.p, Effort::Little);
      const Threads others(6);  // when it runs; scratch is for those when it was made
      testing::run(*y, {&x, &w}, {&results[0]});
      testing::run(*gx, {&gy, &w}, {&results[1]});
      testing::run(*gw, {&gy, &x}, {&results[2]});
      if (first.empty()) {
        first = std::move(results);
        continue;
      }
      for (size_t r = 0; r < results.size(); ++r)
        results[r].each([&](const Dims& at) {
          ASSERT_EQ(results[r].get(at), first[r].get(at)) << threads << " threads, result " << r;
        });
    }
  }
}

TEST(LibrariesConvolution, EmptyBatch) { check_all(make_case({0, 16, 7, 7}, {16, 16, 3, 3}, 1, 1)); }

TEST(LibrariesConvolution, IntegersByPlainLoops) {
  check(make_case({2, 4, 7, 7}, {6, 4, 3, 3}, 1, 1), DType::I64, false);
}

TEST(LibrariesConvolution, StridesThatAreNeitherRowMajorNorChannelsLast) {
  for (DType t : {DType::F32, DType::BF16, DType::F64}) {
    const Case c = make_case({2, 16, 9, 11}, {32, 16, 3, 3}, 1, 1);
    Tensor x = Tensor::random(layout(t, c.x, {3, 0, 2, 1}, 3), 1), w = Tensor::random(layout(t, c.w, {1, 0, 3, 2}), 2);
    Tensor y(layout(t, c.y(), {1, 2, 0, 3}, 1));
    Tensor dense_x(layout(t, c.x)), dense_w(layout(t, c.w)), expected(layout(t, c.y()));
    dense_x.each([&](const Dims& at) { dense_x.set(at, x.get(at)); });
    dense_w.each([&](const Dims& at) { dense_w.set(at, w.get(at)); });
    testing::run(*make_convolution(dense_x.layout, dense_w.layout, expected.layout, c.p), {&dense_x, &dense_w},
                 {&expected});
    testing::run(*make_convolution(x.layout, w.layout, y.layout, c.p), {&x, &w}, {&y});
    expect_close(y, [&](const Dims& at) { return expected.get(at); }, 4, "strided");
  }
}

TEST(LibrariesConvolution, RefusesOperandsThatDoNotFit) {
  const Case c = make_case({2, 16, 9, 11}, {32, 8, 3, 3}, 1, 1);
  EXPECT_THROW(
      make_convolution(layout(DType::F32, c.x), layout(DType::F32, c.w), layout(DType::F32, {2, 32, 9, 11}), c.p),
      TypeError);
}

}  // namespace
}  // namespace lazuli::lowering
