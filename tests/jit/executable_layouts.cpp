// Images between convolutions lie channels-last: which ones do, and that every reader sees the same numbers.
#include <algorithm>
#include "ir/print.h"
#include "lowering/fusion/library_calls.h"
#include "lowering/plan/plan.h"
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using ir::DType;
using ir::Op;
using ir::Value;

ir::Attrs window(int64_t stride, int64_t padding, int64_t groups = 1) {
  return {{stride, stride}, {padding, padding}, {1, 1}, {0}, {0, 0}, {groups}};
}

struct Layouts : ::testing::Test {
  Model m;
  TestHost host;
  std::vector<jit::Buffer> inputs;

  Value input(ir::Dims shape) {
    inputs.push_back(buffer_of(host, random_floats(ir::product(shape), static_cast<uint32_t>(inputs.size() + 1))));
    return m.input(std::move(shape));
  }
  Value convolve(Value x, int64_t channels, int64_t size, int64_t stride = 1) {
    const int64_t from = m.type(x).shape[1];
    auto y = m.apply(Op::convolution, {x, input({channels, from, size, size})}, window(stride, size / 2));
    return m.mul(y, 1.0 / std::sqrt(double(from * size * size)));
  }
  Value listed(Value x) { return m.permute(x, ir::Dims{0, 2, 3, 1}); }
  size_t kernels() const {
    lowering::PlanOptions options;
    options.libraries = &lowering::cpu_libraries();
    return std::ranges::count(lowering::make_plan(m.graph, options).steps, lowering::PlanStep::Kernel,
                              &lowering::PlanStep::kind);
  }
  // How the results of library calls, in their order, lie in memory: C channels-last, R row-major.
  std::string layouts() const {
    lowering::PlanOptions options;
    options.libraries = &lowering::cpu_libraries();
    const lowering::Plan plan = lowering::make_plan(m.graph, options);
    std::string all;
    for (const lowering::PlanStep& step : plan.steps)
      if (step.kind == lowering::PlanStep::Library)
        all += step.results[0].strides == ir::contiguous_strides(step.results[0].type.shape) ? 'R' : 'C';
    return all;
  }
  // Against kernels that are interpreted one by one.
  void check(float tolerance = 1e-4f) {
    auto fused = jit::compile(m.graph, {});
    jit::CompileOptions reference;
    reference.fusion = false;
    reference.interpret_kernels = true;
    auto plain = jit::compile(m.graph, reference);
    Ran got = run(*fused, host, m.graph, inputs), want = run(*plain, host, m.graph, inputs);
    for (size_t i = 0; i < got.floats.size(); ++i) {
      SCOPED_TRACE("output " + std::to_string(i) + " of\n" + ir::print(m.graph) + fused->plan_text());
      expect_close(got.floats[i], want.floats[i], tolerance);
      if (HasFatalFailure()) return;
    }
  }
};

TEST_F(Layouts, ConvolutionsHandOverChannelsLast) {
  auto x = input({2, 3, 9, 8}), scale = input({16, 1, 1});
  auto y = m.apply(Op::relu, {m.mul(convolve(x, 16, 3), scale)});
  auto z = m.apply(Op::sin, {convolve(y, 8, 3, 2)});
  m.graph.outputs = {convolve(z, 24, 1)};
  EXPECT_EQ(layouts(), "CCR");
  check();
}

TEST_F(Layouts, WhatOthersSeeIsRowMajor) {
  auto x = input({2, 3, 8, 8});
  auto seen = convolve(x, 16, 3);
  m.graph.outputs = {seen, m.apply(Op::sin, {convolve(seen, 8, 3)})};
  EXPECT_EQ(layouts(), "RC");
  check();
}

// An output that lists an image channels-last is that image's memory.
TEST_F(Layouts, OutputsThatListThemAreNoCopies) {
  auto x = m.apply(Op::relu, {convolve(input({2, 3, 8, 8}), 16, 3)});
  auto y = m.apply(Op::sin, {m.mul(x, input({16, 1, 1}))});
  m.graph.outputs = {convolve(y, 8, 3)};
  const size_t before = kernels();
  m.graph.outputs.insert(m.graph.outputs.end(), {listed(x), listed(y)});
  EXPECT_EQ(layouts(), "CR");
  EXPECT_EQ(kernels(), before);
  check();
}

// And it is a copy where the image is an output too, is row-major, or is listed twice.
TEST_F(Layouts, OutputsThatListOthersAreCopies) {
  auto x = convolve(input({2, 3, 8, 8}), 16, 3);
  auto y = m.apply(Op::relu, {convolve(x, 16, 3)});
  auto flat = m.apply(Op::matmul, {m.reshape(y, ir::Dims{2, 16 * 64}), input({16 * 64, 5})});
  auto z = m.apply(Op::exp, {convolve(m.apply(Op::sin, {x}), 4, 3)});
  m.graph.outputs = {
      flat, listed(x), x, listed(y), listed(z), listed(z), m.apply(Op::cos, {listed(z)}), convolve(z, 8, 3)};
  check();
}

// What an earlier trace left so is read so.
TEST_F(Layouts, InputsThatListThemAreFollowed) {
  auto x = m.permute(input({2, 8, 8, 16}), ir::Dims{0, 3, 1, 2});
  auto y = m.apply(Op::sin, {m.mul(x, input({16, 1, 1}))});
  m.graph.outputs = {m.apply(Op::cos, {convolve(m.add(y, convolve(y, 16, 3)), 8, 3)}), m.mul(y, y)};
  EXPECT_EQ(layouts(), "CC");
  check();
}

TEST_F(Layouts, ResidualsAndPoolsFollow) {
  auto x = convolve(input({2, 3, 12, 12}), 16, 3);
  auto pooled = m.apply(Op::max_pool2d, {m.apply(Op::relu, {x})}, ir::Attrs{{3, 3}, {2, 2}, {1, 1}, {1, 1}, {0}});
  auto y = m.add(m.apply(Op::relu, {convolve(m.apply(Op::relu, {convolve(pooled, 16, 3)}), 16, 3)}), pooled);
  auto z = m.mean(convolve(y, 32, 3), ir::Dims{2, 3}, false);
  m.graph.outputs = {m.apply(Op::matmul, {z, input({32, 10})})};
  EXPECT_EQ(layouts(), "CCCCCR");
  check();
}

// What is put together lies as its pieces do, and as whoever reads it wants it.
TEST_F(Layouts, ConcatenationsFollow) {
  auto x = convolve(input({2, 3, 10, 9}), 16, 3);
  auto y = convolve(m.apply(Op::relu, {x}), 5, 3);
  auto both = m.apply(Op::cat, {x, m.apply(Op::sin, {y})}, {{1}});
  auto padded = m.apply(Op::pad, {convolve(both, 8, 1), m.constant(0, DType::F32)}, {{0, 0, 1, 2}, {0, 0, 0, 1}});
  auto more = m.apply(Op::cat, {m.apply(Op::relu, {both}), m.mul(both, 2.0)}, {{1}});
  m.graph.outputs = {convolve(padded, 4, 3), m.apply(Op::cos, {convolve(m.apply(Op::exp, {more}), 8, 3)})};
  EXPECT_EQ(layouts(), "CCCRC");
  check();
}

// Of rows, columns or images too, and of what is row-major for another reader.
TEST_F(Layouts, ConcatenationsAlongAnyDimension) {
  auto x = input({2, 8, 6, 6}), y = convolve(x, 8, 3);
  for (int64_t dim = 0; dim < 4; ++dim) {
    auto all = m.apply(Op::cat, {y, x, m.apply(Op::relu, {y})}, {{dim}});
    m.graph.outputs.push_back(m.apply(Op::sin, {convolve(all, 4, 3)}));
    m.graph.outputs.push_back(m.apply(Op::cat, {y, x}, {{dim}}));
  }
  check();
}

// [N, C * H * W] is no window on channels-last memory.
TEST_F(Layouts, AFlattenedImageIsRowMajor) {
  auto y = m.apply(Op::relu, {convolve(convolve(input({4, 3, 6, 6}), 8, 3), 8, 3)});
  m.graph.outputs = {m.apply(Op::matmul, {m.reshape(y, ir::Dims{4, 8 * 36}), input({8 * 36, 5})})};
  check();
  EXPECT_EQ(layouts(), "CRR");
}

// As a vision transformer makes its tokens.
TEST_F(Layouts, TokensOfPatchesAreReadWhereTheyLie) {
  auto y = m.apply(Op::convolution, {input({2, 3, 16, 16}), input({32, 3, 4, 4})}, window(4, 0));
  auto tokens = m.permute(m.reshape(y, ir::Dims{2, 32, 16}), ir::Dims{0, 2, 1});
  m.graph.outputs = {m.apply(Op::matmul, {m.reshape(tokens, ir::Dims{32, 32}), input({32, 8})})};
  check();
  EXPECT_EQ(layouts(), "CR");
}

class RandomImages : public Layouts, public ::testing::WithParamInterface<uint32_t> {
 protected:
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  Value any() { return pool_[pool_.size() - 1 - below(std::min<int64_t>(pool_.size(), 4))]; }
  Value like(Value x) {
    for (int i = 0; i < 8; ++i)
      if (Value y = any(); m.type(y).shape == m.type(x).shape) return y;
    return x;
  }
  Value step() {
    const Value x = any();
    const ir::Dims& shape = m.type(x).shape;
    const int64_t n = shape[0], c = shape[1], h = shape[2], w = shape[3];
    switch (below(14)) {
      case 12:
        return m.apply(Op::cat, {x, like(x)}, {{below(4)}});
      case 13:
        return m.apply(Op::pad, {x, m.constant(1.5, DType::F32)}, {{0, below(2), below(2), 1}, {below(2), 0, 1, 0}});
      case 0:
      case 1:
      case 2:
        return convolve(x, 1 + below(3) * 8, 1 + 2 * below(2), h > 3 ? 1 + below(2) : 1);
      case 3:
        return m.apply(Op::relu, {m.mul(x, input({c, 1, 1}))});
      case 4:
        return m.add(x, like(x));
      case 5:
        return h < 2 || w < 2 ? Value{} : m.apply(Op::max_pool2d, {x}, ir::Attrs{{2, 2}, {1, 1}, {0, 0}, {1, 1}, {0}});
      case 6:
        return h < 2 || w < 2 ? Value{}
                              : m.apply(Op::avg_pool2d, {x}, ir::Attrs{{2, 2}, {2, 2}, {0, 0}, {0}, {1}, {0}});
      case 7:  // normalization
        m.apply(Op::batch_norm, {x, input({c}), input({c}), m.constant(1e-2, DType::F64)}, ir::Attrs{{0}});
        return m.all()[0];
      case 8:
        return m.mul(x, m.apply(Op::sigmoid, {m.mean(x, ir::Dims{2, 3}, true)}));
      case 9:
        return m.permute(x, ir::Dims{0, 1, 3, 2});
      case 10: {  // channels shuffled between two groups
        if (c % 2) return {};
        auto y = m.permute(m.reshape(x, ir::Dims{n, 2, c / 2, h, w}), ir::Dims{0, 2, 1, 3, 4});
        return m.reshape(y, ir::Dims{n, c, h, w});
      }
      default: {  // cut across by a product
        const int64_t points = h * w;
        auto y = m.apply(Op::matmul, {m.reshape(x, ir::Dims{n * c, points}), input({points, points})});
        return m.mul(m.reshape(y, ir::Dims{n, c, h, w}), 1.0 / std::sqrt(double(points)));
      }
    }
  }
  std::mt19937 random_{GetParam()};
  std::vector<Value> pool_;
};

// Values and gradients.
TEST_P(RandomImages, AgreeWithUnfusedKernels) {
  const int64_t c = 1 + below(4), h = 4 + below(4), w = 4 + below(4);
  pool_ = {below(2) ? input({2, c, h, w}) : m.permute(input({2, h, w, c}), ir::Dims{0, 3, 1, 2})};
  for (int made = 0; made < 10;)
    if (Value y = step()) pool_.push_back(y), ++made;
  const Value loss = m.mean(m.mul(pool_.back(), pool_.back()), ir::Dims{0, 1, 2, 3}, false);
  m.graph.outputs = {loss, pool_[5], any(), listed(any()), listed(any()), listed(pool_[4])};

  std::vector<Value> wrt;
  std::vector<std::vector<Value>> map;
  for (uint32_t n = 0; n < m.graph.nodes.size(); ++n) {
    map.emplace_back();
    for (uint32_t r = 0; r < m.graph.nodes[n].types.size(); ++r) map.back().push_back({n, r});
    if (m.graph.nodes[n].op == Op::input) wrt.push_back({n, 0});
  }
  const ir::Graph forward = m.graph;
  const Value one = m.constant(1, DType::F32);
  for (Value g : ir::differentiate(m, forward, map, {&loss, 1}, {&one, 1}, wrt))
    if (g) m.graph.outputs.push_back(g);
  check(1e-3f);
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomImages, ::testing::Range(0u, 60u));

}  // namespace
}  // namespace lazuli::testing
