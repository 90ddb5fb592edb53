// Operands that are kept in the order in which a library reads them: when they are, and that nobody reads old contents.
#include "jit/run/packed_operands.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include "lowering/plan/plan.h"
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using jit::PackedOperands;

struct PackingHost : TestHost {
  PackedOperands store;
  PackingHost() { store.set_limit(1 << 24); }
  PackedOperands* packed_operands() override { return &store; }
};

// x times w, both inputs, with rows enough for a library that packs.
struct ProductModel {
  static constexpr int64_t kRows = 96, kInner = 96, kColumns = 80;  // not few: those are for a BLAS
  Model m;
  explicit ProductModel(bool donate = false) {
    auto x = m.input({kRows, kInner}), w = m.input({kInner, kColumns});
    m.graph.outputs = {m.apply(ir::Op::matmul, {x, w})};
    if (donate) {
      m.graph.outputs.push_back(m.mul(w, w));
      m.graph.donated = {false, true};
    }
  }
  static Floats product(const Floats& x, const Floats& w) {
    Floats out;
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t c = 0; c < kColumns; ++c) {
        double sum = 0;
        for (int64_t k = 0; k < kInner; ++k) sum += double(x[r * kInner + k]) * w[k * kColumns + c];
        out.push_back(static_cast<float>(sum));
      }
    return out;
  }
};

TEST(PackedOperands, AreKeptFromTheSecondRunOn) {
  ProductModel p;
  PackingHost host;
  auto e = jit::compile(p.m.graph, {});
  if (e->plan_text().find("packed") == std::string::npos) GTEST_SKIP() << "this machine's library packs nothing";
  const Floats x = random_floats(p.kRows * p.kInner, 1), w = random_floats(p.kInner * p.kColumns, 2);
  jit::Buffer xb = buffer_of(host, x), wb = buffer_of(host, w);
  for (size_t run_number = 0; run_number < 4; ++run_number) {
    expect_close(run(*e, host, p.m.graph, {xb, wb}).floats[0], ProductModel::product(x, w), 1e-4f);
    EXPECT_EQ(host.store.bytes() > 0, run_number >= 1);
  }
  // Another program finds them too.
  ProductModel other;
  const size_t before = host.store.bytes();
  run(*jit::compile(other.m.graph, {}), host, other.m.graph, {xb, wb});
  EXPECT_EQ(host.store.bytes(), before);
}

// As query, key and value out of one parameter are: a window is found by where it begins, not by its memory alone.
TEST(PackedOperands, WindowsOfOneParameterAreApart) {
  Model m;
  constexpr int64_t kRows = ProductModel::kRows, kInner = ProductModel::kInner, kColumns = ProductModel::kColumns;
  const ir::Value x = m.input({kRows, kInner}), weights = m.input({2 * kInner, kColumns});
  for (int64_t half : {0, 1})
    m.graph.outputs.push_back(m.apply(
        ir::Op::matmul, {x, m.apply(ir::Op::slice, {weights}, {{half * kInner, 0}, {kInner, kColumns}, {1, 1}})}));
  PackingHost host;
  auto e = jit::compile(m.graph, {});
  const Floats a = random_floats(kRows * kInner, 1), w = random_floats(2 * kInner * kColumns, 2);
  const jit::Buffer ab = buffer_of(host, a), wb = buffer_of(host, w);
  const auto middle = w.begin() + kInner * kColumns;
  for (int i = 0; i < 3; ++i) {
    const Ran ran = run(*e, host, m.graph, {ab, wb});
    expect_close(ran.floats[0], ProductModel::product(a, {w.begin(), middle}), 1e-4f);
    expect_close(ran.floats[1], ProductModel::product(a, {middle, w.end()}), 1e-4f);
  }
}

// The same for weights of convolutions, which are packed on processors, too, whose library packs no product.
TEST(PackedOperands, WindowsOfOneKernelAreApart) {
  Model m;
  constexpr int64_t kChannels = 16, kSize = 8;
  const ir::Value x = m.input({2, kChannels, kSize, kSize}), weights = m.input({2 * kChannels, kChannels, 3, 3});
  for (int64_t half : {0, 1}) {
    const ir::Value w =
        m.apply(ir::Op::slice, {weights}, {{half * kChannels, 0, 0, 0}, {kChannels, kChannels, 3, 3}, {1, 1, 1, 1}});
    m.graph.outputs.push_back(
        m.apply(ir::Op::convolution, {x, w}, ir::Attrs{{1, 1}, {1, 1}, {1, 1}, {0}, {0, 0}, {1}}));
  }
  PackingHost host;
  const auto e = jit::compile(m.graph, {});
  const Floats a = random_floats(2 * kChannels * kSize * kSize, 1), w = random_floats(2 * kChannels * kChannels * 9, 2);
  const jit::Buffer ab = buffer_of(host, a), wb = buffer_of(host, w);
  const Ran first = run(*e, host, m.graph, {ab, wb});  // nothing is packed yet
  EXPECT_NE(first.floats[0], first.floats[1]);
  for (int i = 0; i < 3; ++i) {
    const Ran again = run(*e, host, m.graph, {ab, wb});
    for (int half : {0, 1}) expect_close(again.floats[half], first.floats[half], 1e-4f);
  }
}

// The scale of a norm, which goes into the weights before it: the norm's epsilon is a number of the run.
TEST(PackedOperands, AScaleMayDependOnANumberOfTheRun) {
  Model m;
  constexpr int64_t kChannels = 16, kSize = 8;
  const ir::Value x = m.input({2, kChannels, kSize, kSize}), w = m.input({kChannels, kChannels, 3, 3}),
                  variance = m.input({1, kChannels, 1, 1}), epsilon = m.scalar(ir::DType::F32);
  const ir::Value scale = m.apply(ir::Op::rsqrt, {m.add(variance, m.broadcast(epsilon, ir::Dims{1, kChannels, 1, 1}))});
  const ir::Value y = m.apply(ir::Op::convolution, {x, w}, ir::Attrs{{1, 1}, {1, 1}, {1, 1}, {0}, {0, 0}, {1}});
  m.graph.outputs = {m.mul(y, m.broadcast(scale, m.shape(y)))};
  const lowering::Plan plan = lowering::make_plan(m.graph, {});
  const auto scaled = [](const lowering::PlanStep& s) { return s.packed.factor_bytes == kChannels * sizeof(float); };
  EXPECT_TRUE(std::ranges::any_of(plan.steps, scaled));

  PackingHost host;
  const auto e = jit::compile(m.graph, {});
  const Floats numbers = random_floats(2 * kChannels * kSize * kSize, 1);
  const jit::Buffer xb = buffer_of(host, numbers), wb = buffer_of(host, random_floats(kChannels * kChannels * 9, 2)),
                    vb = buffer_of(host, Floats(kChannels, 1));
  const auto run_with = [&](double number) {
    return run(*e, host, m.graph, {xb, wb, vb}, {std::bit_cast<int64_t>(number)}).floats[0];
  };
  const Floats first = run_with(0);
  for (const double number : {3.0, 3.0, 0.0, 3.0, 8.0}) {
    Floats expected = first;
    for (float& v : expected) v /= std::sqrt(static_cast<float>(1 + number));
    expect_close(run_with(number), expected, 1e-5f);
  }
}

TEST(PackedOperands, OtherContentsArePackedAnew) {
  ProductModel p;
  PackingHost host;
  auto e = jit::compile(p.m.graph, {});
  const Floats x = random_floats(p.kRows * p.kInner, 1);
  jit::Buffer xb = buffer_of(host, x), wb = buffer_of(host, random_floats(p.kInner * p.kColumns, 2));
  for (uint32_t seed = 2; seed < 6; ++seed) {
    const Floats w = random_floats(p.kInner * p.kColumns, seed);
    std::memcpy(wb.data, w.data(), wb.bytes);
    host.store.written(wb);
    EXPECT_EQ(host.store.bytes(), 0u);
    for (int i = 0; i < 3; ++i)
      expect_close(run(*e, host, p.m.graph, {xb, wb}).floats[0], ProductModel::product(x, w), 1e-4f);
  }
}

TEST(PackedOperands, WeightsThatARunOverwritesAreNotKept) {
  ProductModel forward, update(true);
  PackingHost host;
  auto f = jit::compile(forward.m.graph, {}), u = jit::compile(update.m.graph, {});
  EXPECT_EQ(u->plan_text().find("packed"), std::string::npos);
  const Floats x = random_floats(forward.kRows * forward.kInner, 1);
  Floats w = random_floats(forward.kInner * forward.kColumns, 2);
  jit::Buffer xb = buffer_of(host, x), wb = buffer_of(host, w);
  for (int step = 0; step < 3; ++step) {
    expect_close(run(*f, host, forward.m.graph, {xb, wb}).floats[0], ProductModel::product(x, w), 1e-4f);
    EXPECT_EQ(host.store.bytes(), 0u);
    std::vector<jit::Buffer> in{xb, wb};
    std::vector<jit::Buffer> out(2);
    const bool donate[] = {false, true};
    u->run(host, in, donate, {}, out);
    EXPECT_EQ(out[1].data, wb.data) << "the update was to be in place";
    for (float& v : w) v *= v;
  }
}

TEST(PackedOperands, GoWithTheirBuffer) {
  ProductModel p;
  PackingHost host;
  auto e = jit::compile(p.m.graph, {});
  const Floats x = random_floats(p.kRows * p.kInner, 1);
  jit::Buffer xb = buffer_of(host, x);
  for (uint32_t seed = 2; seed < 8; ++seed) {
    const Floats w = random_floats(p.kInner * p.kColumns, seed);
    jit::Buffer wb = buffer_of(host, w);  // often at the address of the one before
    for (int i = 0; i < 3; ++i)
      expect_close(run(*e, host, p.m.graph, {xb, wb}).floats[0], ProductModel::product(x, w), 1e-4f);
  }
  EXPECT_LE(host.store.bytes(), 2 * (p.kInner + 64) * (p.kColumns + 64) * sizeof(float));
  host.store.clear();
  EXPECT_EQ(host.store.bytes(), 0u);
}

TEST(PackedOperands, NoMoreThanTheLimit) {
  ProductModel p;
  PackingHost host;
  host.store.set_limit(64);
  auto e = jit::compile(p.m.graph, {});
  const Floats x = random_floats(p.kRows * p.kInner, 1), w = random_floats(p.kInner * p.kColumns, 2);
  jit::Buffer xb = buffer_of(host, x), wb = buffer_of(host, w);
  for (int i = 0; i < 3; ++i)
    expect_close(run(*e, host, p.m.graph, {xb, wb}).floats[0], ProductModel::product(x, w), 1e-4f);
  EXPECT_EQ(host.store.bytes(), 0u);
}

TEST(PackedOperands, CanBeLeftOut) {
  ProductModel p;
  jit::CompileOptions options;
  options.pack = false;
  EXPECT_EQ(jit::compile(p.m.graph, options)->plan_text().find("packed"), std::string::npos);
}

}  // namespace
}  // namespace lazuli::testing
