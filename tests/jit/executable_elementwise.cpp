// Elementwise chains run in one kernel, whatever views stand between.
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using ir::Op;

TEST(ExecutableElementwise, GeluOfMulAddIsOneKernel) {
  Model m;
  auto a = m.input({37, 53}), b = m.input({37, 53}), c = m.input({53});
  m.graph.outputs = {m.apply(Op::gelu, {m.add(m.mul(a, b), c)})};
  TestHost host;
  auto e = jit::compile(m.graph, {});
  EXPECT_EQ(e->stats().kernels, 1);
  const Floats x = random_floats(37 * 53, 1), y = random_floats(37 * 53, 2), z = random_floats(53, 3);
  auto r = run(*e, host, m.graph, {buffer_of(host, x), buffer_of(host, y), buffer_of(host, z)});
  Floats want(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const float v = x[i] * y[i] + z[i % 53];
    want[i] = 0.5f * v * (1 + std::erf(v * 0.70710678f));
  }
  expect_close(r.floats[0], want);
}

TEST(ExecutableElementwise, TransposedOperandIsReadInPlace) {
  Model m;
  auto a = m.input({5, 7}), b = m.input({7, 5});
  m.graph.outputs = {m.add(m.transpose(a), b)};
  TestHost host;
  auto e = jit::compile(m.graph, {});
  EXPECT_EQ(e->stats().kernels, 1);
  const Floats x = random_floats(35, 1), y = random_floats(35, 2);
  auto r = run(*e, host, m.graph, {buffer_of(host, x), buffer_of(host, y)});
  Floats want(35);
  for (int i = 0; i < 7; ++i)
    for (int j = 0; j < 5; ++j) want[i * 5 + j] = x[j * 7 + i] + y[i * 5 + j];
  expect_close(r.floats[0], want);
}

TEST(ExecutableElementwise, HeadsMergeThroughReshapeInOneKernel) {
  Model m;
  auto x = m.input({2, 3, 4, 5});  // batch, heads, time, depth
  auto merged = m.reshape(m.permute(x, ir::Dims{0, 2, 1, 3}), ir::Dims{2, 4, 15});
  m.graph.outputs = {m.mul(merged, 2.0)};
  TestHost host;
  auto e = jit::compile(m.graph, {});
  EXPECT_EQ(e->stats().kernels, 1);
  const Floats v = random_floats(120);
  auto r = run(*e, host, m.graph, {buffer_of(host, v)});
  Floats want;
  for (int b = 0; b < 2; ++b)
    for (int t = 0; t < 4; ++t)
      for (int h = 0; h < 3; ++h)
        for (int d = 0; d < 5; ++d) want.push_back(2 * v[((b * 3 + h) * 4 + t) * 5 + d]);
  expect_close(r.floats[0], want);
}

TEST(ExecutableElementwise, RunTimeScalarIsAnArgument) {
  Model m;
  auto x = m.input({100});
  m.graph.outputs = {m.mul(x, m.scalar(ir::DType::F32))};
  TestHost host;
  auto e = jit::compile(m.graph, {});
  const Floats v = random_floats(100);
  for (double factor : {2.0, -3.5}) {
    auto r = run(*e, host, m.graph, {buffer_of(host, v)}, {std::bit_cast<int64_t>(factor)});
    Floats want;
    for (float f : v) want.push_back(f * static_cast<float>(factor));
    expect_close(r.floats[0], want);
  }
}

TEST(ExecutableElementwise, FlipAndSliceReadBackwards) {
  Model m;
  auto x = m.input({4, 10});
  auto part = m.apply(Op::slice, {x}, ir::Attrs{{1, 2}, {2, 3}, {1, 3}});
  m.graph.outputs = {m.neg(m.apply(Op::flip, {part}, ir::Attrs{{1}}))};
  TestHost host;
  auto e = jit::compile(m.graph, {});
  EXPECT_EQ(e->stats().kernels, 1);
  const Floats v = random_floats(40);
  auto r = run(*e, host, m.graph, {buffer_of(host, v)});
  Floats want;
  for (int i = 1; i < 3; ++i)
    for (int j : {8, 5, 2}) want.push_back(-v[i * 10 + j]);
  expect_close(r.floats[0], want);
}

}  // namespace
}  // namespace lazuli::testing
