// Operands that are kept in the order in which a library reads them: when they are, and that nobody reads old contents.
#include "jit/packed_operands.h"
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
  static constexpr int64_t kRows = 24, kInner = 96, kColumns = 80;
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
