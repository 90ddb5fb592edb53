// Library and external calls between kernels: operands in place, epilogues absorbed.
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using ir::Op;

Floats product(const Floats& a, const Floats& b, int m, int k, int n) {
  Floats c(static_cast<size_t>(m) * n, 0);
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j)
      for (int l = 0; l < k; ++l) c[i * n + j] += a[i * k + l] * b[l * n + j];
  return c;
}

TEST(ExecutableCalls, LinearWithBiasAndActivationIsOneLibraryCall) {
  Model m;
  auto x = m.input({2, 5, 8}), w = m.input({6, 8}), bias = m.input({6});
  auto flat = m.reshape(x, ir::Dims{10, 8});
  auto y = m.reshape(m.apply(Op::matmul, {flat, m.transpose(w)}), ir::Dims{2, 5, 6});
  m.graph.outputs = {m.apply(Op::relu, {m.add(y, bias)})};
  TestHost host;
  auto e = jit::compile(m.graph, {});
  EXPECT_EQ(e->stats().kernels, 0) << e->plan_text();
  EXPECT_EQ(e->stats().library_calls, 1);
  const Floats a = random_floats(80, 1), b = random_floats(48, 2), c = random_floats(6, 3);
  Floats bt(48);
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 8; ++j) bt[j * 6 + i] = b[i * 8 + j];
  Floats want = product(a, bt, 10, 8, 6);
  for (size_t i = 0; i < want.size(); ++i) want[i] = std::max(0.f, want[i] + c[i % 6]);
  expect_close(run(*e, host, m.graph, {buffer_of(host, a), buffer_of(host, b), buffer_of(host, c)}).floats[0], want);
}

TEST(ExecutableCalls, AValueThatOthersReadIsNotAbsorbed) {
  Model m;
  auto x = m.input({4, 8}), w = m.input({8, 6}), bias = m.input({6});
  auto pre = m.add(m.apply(Op::matmul, {x, w}), bias);
  m.graph.outputs = {m.apply(Op::gelu, {pre}), m.mul(pre, 2.0)};
  TestHost host;
  auto e = jit::compile(m.graph, {});
  EXPECT_EQ(e->stats().kernels, 1) << e->plan_text();
  EXPECT_EQ(e->stats().library_calls, 1);
  const Floats a = random_floats(32, 1), b = random_floats(48, 2), c = random_floats(6, 3);
  Floats want = product(a, b, 4, 8, 6);
  for (size_t i = 0; i < want.size(); ++i) want[i] = 2 * (want[i] + c[i % 6]);
  expect_close(run(*e, host, m.graph, {buffer_of(host, a), buffer_of(host, b), buffer_of(host, c)}).floats[1], want);
}

TEST(ExecutableCalls, ResidualIsAddedByTheCall) {
  Model m;
  auto x = m.input({4, 8}), w = m.input({8, 8});
  m.graph.outputs = {m.add(x, m.apply(Op::matmul, {x, w}))};
  TestHost host;
  auto e = jit::compile(m.graph, {});
  EXPECT_EQ(e->stats().kernels, 0) << e->plan_text();
  const Floats a = random_floats(32, 1), b = random_floats(64, 2);
  Floats want = product(a, b, 4, 8, 8);
  for (size_t i = 0; i < want.size(); ++i) want[i] += a[i];
  expect_close(run(*e, host, m.graph, {buffer_of(host, a), buffer_of(host, b)}).floats[0], want);
}

TEST(ExecutableCalls, AFloat64ProductKeepsAllDigitsOfANumber) {
  Model m;
  auto x = m.input(ir::DType::F64, {2, 3}), w = m.input(ir::DType::F64, {3, 2});
  m.graph.outputs = {m.mul(m.apply(Op::matmul, {x, w}), 0.1)};
  TestHost host;
  auto e = jit::compile(m.graph, {});
  const std::vector<double> a{1, 2, 3, 4, 5, 6}, b{1, 0, 0, 1, 1, 1};
  const Ran r = run(*e, host, m.graph, {buffer_of(host, a), buffer_of(host, b)});
  const std::vector<double> want{4 * 0.1, 5 * 0.1, 10 * 0.1, 11 * 0.1};
  EXPECT_EQ(values_of<double>(r.outputs[0]), want) << e->plan_text();
}

TEST(ExecutableCalls, ExternalCallSeesAStridedViewAndItsResultIsUsed) {
  Model m;
  auto x = m.input({3, 4});
  m.at_line("model.py:7");
  const ir::Type types[] = {{ir::DType::F32, {4, 3}}};
  auto y = m.emit(Op::external, std::vector<ir::Value>{m.transpose(x)}, ir::Attrs{{42}}, types);
  m.graph.outputs = {m.add(y, 1.0)};
  TestHost host;
  host.kernels = [](int64_t call, std::span<const jit::BufferView> in) {
    EXPECT_EQ(call, 42);
    EXPECT_EQ(in[0].strides, (ir::Dims{1, 4}));
    Floats out;
    const float* p = static_cast<const float*>(in[0].buffer.data);
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 3; ++j) out.push_back(10 * p[i + 4 * j]);
    return std::vector<Floats>{out};
  };
  auto e = jit::compile(m.graph, {});
  EXPECT_EQ(e->stats().external_calls, 1);
  const Floats v = random_floats(12);
  Floats want;
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 3; ++j) want.push_back(10 * v[i + 4 * j] + 1);
  expect_close(run(*e, host, m.graph, {buffer_of(host, v)}).floats[0], want);
}

// What an external call sees of a value that is only made for such calls is dense, as in eager.
TEST(ExecutableCalls, ExternalCallsShowHowTheirOperandLies) {
  for (const bool seen : {false, true}) {
    Model m;
    auto x = m.input({3, 4});
    auto y = m.apply(Op::sin, {m.apply(Op::exp, {m.apply(Op::tanh, {x})})});
    const ir::Type types[] = {{ir::DType::F32, {4, 3}}};
    auto call = [&](int64_t n) {
      return m.emit(Op::external, std::vector<ir::Value>{m.transpose(y)}, ir::Attrs{{n}}, types);
    };
    auto a = call(1), b = call(2);
    m.graph.outputs = {m.add(a, b)};
    if (seen) m.graph.outputs.push_back(y);
    TestHost host;
    host.kernels = [&](int64_t, std::span<const jit::BufferView> in) {
      EXPECT_EQ(in[0].strides, seen ? (ir::Dims{1, 4}) : (ir::Dims{3, 1}));
      Floats out;
      const float* p = static_cast<const float*>(in[0].buffer.data) + in[0].offset;
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 3; ++j) out.push_back(p[i * in[0].strides[0] + j * in[0].strides[1]]);
      return std::vector<Floats>{out};
    };
    auto e = jit::compile(m.graph, {});
    EXPECT_EQ(e->stats().kernels, 2) << e->plan_text();
    const Floats v = random_floats(12);
    Floats want;
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 3; ++j) want.push_back(2 * std::sin(std::exp(std::tanh(v[i + 4 * j]))));
    expect_close(run(*e, host, m.graph, {buffer_of(host, v)}).floats[0], want);
  }
}

TEST(ExecutableCalls, ExternalCallsReadWhatAnEpilogueLeaves) {
  Model m;
  auto x = m.input({4, 8}), w = m.input({8, 6}), bias = m.input({6});
  auto y = m.apply(Op::relu, {m.add(m.apply(Op::matmul, {x, w}), bias)});
  const ir::Type types[] = {{ir::DType::F32, {1}}};
  m.graph.outputs = {m.emit(Op::external, std::vector<ir::Value>{m.transpose(y)}, ir::Attrs{{1}}, types)};
  TestHost host;
  host.kernels = [&](int64_t, std::span<const jit::BufferView> in) {
    EXPECT_EQ(in[0].strides, (ir::Dims{1, 6}));
    return std::vector<Floats>{{static_cast<const float*>(in[0].buffer.data)[in[0].offset]}};
  };
  auto e = jit::compile(m.graph, {});
  EXPECT_EQ(e->stats().kernels, 0) << e->plan_text();
  const Floats a(32, 1), b(48, 1), c(6, 1);
  EXPECT_EQ(run(*e, host, m.graph, {buffer_of(host, a), buffer_of(host, b), buffer_of(host, c)}).floats[0][0], 9);
}

TEST(ExecutableCalls, AnErrorNamesOpAndLineAndLeavesTheExecutableUsable) {
  Model m;
  auto x = m.input({4});
  m.at_line("model.py:31");
  const ir::Type types[] = {{ir::DType::F32, {4}}};
  auto y = m.emit(Op::external, std::vector<ir::Value>{x}, ir::Attrs{{1}}, types);
  m.graph.outputs = {m.add(y, 1.0)};
  TestHost host;
  bool fail = true;
  host.kernels = [&](int64_t, std::span<const jit::BufferView>) {
    if (fail) throw std::runtime_error("no such luck");
    return std::vector<Floats>{{1, 2, 3, 4}};
  };
  auto e = jit::compile(m.graph, {});
  const auto in = buffer_of(host, Floats{1, 2, 3, 4});
  try {
    run(*e, host, m.graph, {in});
    FAIL() << "expected an error";
  } catch (const jit::ExecutionError& error) {
    EXPECT_STREQ(error.what(), "external (model.py:31): no such luck");
  }
  EXPECT_EQ(host.live, 1);
  fail = false;
  expect_close(run(*e, host, m.graph, {in}).floats[0], {2, 3, 4, 5});
}

TEST(ExecutableCalls, ConvolutionTakesAChannelBias) {
  Model m;
  auto x = m.input({1, 2, 4, 4}), w = m.input({3, 2, 1, 1}), bias = m.input({3});
  auto y = m.apply(Op::convolution, {x, w}, ir::Attrs{{1, 1}, {0, 0}, {1, 1}, {0}, {0, 0}, {1}});
  m.graph.outputs = {m.add(y, m.reshape(bias, ir::Dims{3, 1, 1}))};
  TestHost host;
  auto e = jit::compile(m.graph, {});
  EXPECT_EQ(e->stats().kernels, 0) << e->plan_text();
  const Floats a = random_floats(32, 1), b = random_floats(6, 2), c = random_floats(3, 3);
  Floats want;
  for (int o = 0; o < 3; ++o)
    for (int p = 0; p < 16; ++p) want.push_back(a[p] * b[2 * o] + a[16 + p] * b[2 * o + 1] + c[o]);
  expect_close(run(*e, host, m.graph, {buffer_of(host, a), buffer_of(host, b), buffer_of(host, c)}).floats[0], want);
}

}  // namespace
}  // namespace lazuli::testing
