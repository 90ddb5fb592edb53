// The patterns of training that must become the fewest kernels.
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using ir::Op;
using ir::Value;

struct Patterns : ::testing::Test {
  Model m;
  TestHost host;
  std::vector<jit::Buffer> inputs;
  std::vector<Floats> data;

  Value input(ir::Dims shape, float low = -1, float high = 1) {
    data.push_back(random_floats(ir::product(shape), static_cast<uint32_t>(data.size() + 1), low, high));
    inputs.push_back(buffer_of(host, data.back()));
    return m.input(std::move(shape));
  }
  // Runs compiled kernels, and checks them against interpreted ones of an unfused plan.
  Ran check(int64_t kernels, float tolerance = 1e-4f, const std::vector<int64_t>& scalars = {}) {
    auto fused = jit::compile(m.graph, {});
    EXPECT_EQ(fused->stats().kernels, kernels) << fused->plan_text();
    jit::CompileOptions reference;
    reference.fusion = false;
    reference.interpret_kernels = true;
    auto plain = jit::compile(m.graph, reference);
    Ran got = run(*fused, host, m.graph, inputs, scalars), want = run(*plain, host, m.graph, inputs, scalars);
    for (size_t i = 0; i < got.floats.size(); ++i) expect_close(got.floats[i], want.floats[i], tolerance);
    return got;
  }
};

TEST_F(Patterns, LayerNormForwardIsOneKernel) {
  auto x = input({12, 96}), w = input({96}), b = input({96});
  m.apply(Op::layer_norm, {x, w, b, m.constant(1e-5, ir::DType::F64)}, ir::Attrs{{1}});
  m.graph.outputs = {m.all()[0], m.all()[1], m.all()[2]};
  check(1);
}

TEST_F(Patterns, LayerNormBackwardIsOneKernelAndColumnSums) {
  auto gy = input({12, 96}), x = input({12, 96}), mean = input({12, 1}), rstd = input({12, 1}, 0.5, 1), w = input({96});
  m.apply(Op::layer_norm_backward, {gy, x, mean, rstd, w}, ir::Attrs{{1}});
  m.graph.outputs = {m.all()[0], m.all()[1], m.all()[2]};
  check(2);
}

TEST_F(Patterns, BatchNormForwardIsOneKernel) {
  auto x = input({6, 8, 5, 5}), w = input({8}), b = input({8});
  m.apply(Op::batch_norm, {x, w, b, m.constant(1e-5, ir::DType::F64)}, ir::Attrs{{1}});
  m.graph.outputs = {m.all()[0], m.all()[1], m.all()[2], m.all()[3]};
  check(1);
}

TEST_F(Patterns, BatchNormBackwardIsOneKernel) {
  auto gy = input({6, 8, 5, 5}), x = input({6, 8, 5, 5}), w = input({8}), mean = input({8}), inv = input({8}, 0.5, 1);
  m.apply(Op::batch_norm_backward, {gy, x, w, mean, inv}, ir::Attrs{{1}});
  m.graph.outputs = {m.all()[0], m.all()[1], m.all()[2]};
  check(1);
}

TEST_F(Patterns, SoftmaxBackwardIsOneKernel) {
  auto gy = input({9, 40}), y = input({9, 40}, 0, 1);
  m.graph.outputs = {m.apply(Op::softmax_backward, {gy, y}, ir::Attrs{{1}})};
  check(1);
}

TEST_F(Patterns, CrossEntropyIsARowKernelAndASum) {
  auto x = input({20, 31});
  std::vector<int64_t> target(20);
  for (int i = 0; i < 20; ++i) target[i] = (i * 7) % 31;
  inputs.push_back(buffer_of(host, target));
  auto t = m.input(ir::DType::I64, {20});
  auto logp = m.apply(Op::log_softmax, {x}, ir::Attrs{{1}});
  m.apply(Op::nll_loss, {logp, t, {}}, ir::Attrs{{1}, {-100}});
  m.graph.outputs = {m.all()[0]};
  check(2);
}

TEST_F(Patterns, CrossEntropyBackwardJoinsTheForward) {
  auto x = input({20, 31});
  std::vector<int64_t> target(20);
  for (int i = 0; i < 20; ++i) target[i] = (i * 7) % 31;
  inputs.push_back(buffer_of(host, target));
  auto t = m.input(ir::DType::I64, {20});
  auto logp = m.apply(Op::log_softmax, {x}, ir::Attrs{{1}});
  m.apply(Op::nll_loss, {logp, t, {}}, ir::Attrs{{1}, {-100}});
  auto loss = m.all()[0], weight = m.all()[1];
  auto one = m.constant(1, ir::DType::F32);
  auto glogp = m.apply(Op::nll_loss_backward, {one, logp, t, {}, weight}, ir::Attrs{{1}, {-100}});
  auto gx = m.apply(Op::log_softmax_backward, {glogp, logp}, ir::Attrs{{1}});
  m.graph.outputs = {loss, gx};
  // Rows, the two sums over them, and the gradient, which needs one of the sums.
  check(3);
}

TEST_F(Patterns, AdamWIsOneKernel) {
  const auto f = ir::DType::F32;
  auto p = input({50, 30}), g = input({50, 30}), mom = input({50, 30}), v = input({50, 30}, 0, 1);
  auto lr = m.scalar(f), c1 = m.scalar(f), c2 = m.scalar(f);
  auto decayed = m.sub(p, m.mul(p, m.mul(lr, 0.01)));
  auto m1 = m.add(m.mul(mom, 0.9), m.mul(g, 0.1));
  auto v1 = m.add(m.mul(v, 0.999), m.mul(m.mul(g, g), 0.001));
  auto denominator = m.add(m.div(m.apply(Op::sqrt, {v1}), c2), 1e-8);
  auto p1 = m.sub(decayed, m.mul(m.div(lr, c1), m.div(m1, denominator)));
  m.graph.outputs = {p1, m1, v1};
  check(1, 1e-4f, {std::bit_cast<int64_t>(0.01), std::bit_cast<int64_t>(0.1), std::bit_cast<int64_t>(0.03)});
}

TEST_F(Patterns, GeluBackwardWithBiasGradientReadsItsInputsOnce) {
  auto gy = input({40, 64}), x = input({40, 64});
  auto gx = m.apply(Op::gelu_backward, {gy, x});
  m.graph.outputs = {gx, m.sum(gx, ir::Dims{0}, false)};
  check(1);
}

TEST_F(Patterns, DropoutForwardIsOneKernel) {
  auto x = input({16, 24});
  const auto [y, mask] = dropout(m, x, 0.3);
  m.graph.outputs = {y, m.convert(mask, ir::DType::F32)};
  auto r = check(1, 1e-5f, {7, 3});
  double kept = 0;
  for (float k : r.floats[1]) kept += k;
  EXPECT_NEAR(kept / (16 * 24), 0.7, 0.1);
}

// An exponential that merges with the later product, a sum that would merge with the later one: the first kernel waits
// for the sum, and the later sum, by way of the matrix product, for the first kernel.
TEST_F(Patterns, KernelsThatWouldWaitForEachOtherStayApart) {
  auto a = input({8, 8}), b = input({7}, 0.5, 1);
  auto p = m.apply(Op::exp, {a});
  auto product = m.apply(Op::matmul, {p, p});
  auto q = m.sum(product, ir::Dims{0, 1}, false);
  auto s = m.sum(b, ir::Dims{0}, false);
  auto t = m.mul(a, m.broadcast(m.reshape(s, ir::Dims{1, 1}), ir::Dims{8, 8}));
  auto w = m.sum(m.mul(b, m.broadcast(m.reshape(q, ir::Dims{1}), ir::Dims{7})), ir::Dims{0}, false);
  m.graph.outputs = {p, t, s, w};
  check(4);
}

}  // namespace
}  // namespace lazuli::testing
