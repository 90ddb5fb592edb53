// Kernels are found by their pattern: other sizes are planned again and compile nothing.
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using ir::Op;

ir::Graph block(int64_t batch, int64_t time, int64_t width) {
  Model m;
  auto x = m.input({batch, time, width}), w = m.input({width}), b = m.input({width});
  m.apply(Op::layer_norm, {x, w, b, m.constant(1e-5, ir::DType::F64)}, ir::Attrs{{1}});
  auto y = m.all()[0];
  auto p = m.apply(Op::softmax, {m.apply(Op::gelu, {y})}, ir::Attrs{{2}});
  auto turned = m.reshape(m.permute(p, ir::Dims{0, 2, 1}), ir::Dims{batch * width, time});
  m.graph.outputs = {m.add(m.mean(p, ir::Dims{1}, false), 1.0), turned, m.sum(p, ir::Dims{0, 1, 2}, false)};
  return m.graph;
}

TEST(ExecutableSizes, ASecondShapeCompilesNoKernel) {
  jit::CompileOptions options;
  options.threads = 2;
  jit::compile(block(4, 12, 40), options);
  jit::compile(block(8, 64, 256), options);  // where sums of everything are split among threads
  const auto before = jit::kernel_stats();
  for (auto [b, t, w] : {std::array<int64_t, 3>{7, 12, 40}, {4, 31, 40}, {4, 12, 96}, {16, 128, 256}}) {
    auto e = jit::compile(block(b, t, w), options);
    EXPECT_GT(e->stats().kernels, 0);
  }
  EXPECT_EQ(jit::kernel_stats().compiled, before.compiled);
}

}  // namespace
}  // namespace lazuli::testing
