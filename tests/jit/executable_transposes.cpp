// Kernels over operands that lie transposed to each other: which are tiled, and that any sizes come out right.
#include "lowering/plan/plan.h"
#include "tests/jit/executable_support.h"
#include "tests/lowering/nest_memory.h"

namespace lazuli::testing {
namespace {

using ir::DType;

// Each buffer ends at a page that cannot be touched.
struct GuardedHost : TestHost {
  jit::Buffer allocate(size_t bytes) override {
    auto guarded = std::make_shared<GuardedBuffer>(bytes, true);
    char* data = guarded->data();
    return {data, bytes, std::shared_ptr<void>(std::move(guarded), data)};
  }
};

ir::Dims permuted(const ir::Dims& shape, const ir::Dims& order) {
  ir::Dims out;
  for (int64_t d : order) out.push_back(shape[d]);
  return out;
}

const lowering::LoopNest& only_nest(const lowering::Plan& plan) {
  EXPECT_EQ(plan.steps.size(), 1u);
  return plan.steps[0].loops.nest;
}

TEST(Transposes, AreTiledWhereTheOtherDimensionIsDense) {
  struct Case {
    ir::Dims shape, order;
    uint8_t tile;
  };
  const Case cases[] = {
      {{40, 30}, {1, 0}, 0},                             // out[j, i] = in[i, j]: j is dense in the operand
      {{2, 30, 40}, {0, 2, 1}, 1},                       // in a batch
      {{2, 8, 6, 7}, {0, 2, 3, 1}, 1},                   // NCHW to NHWC: height and width are one
      {{20, 3, 30}, {2, 1, 0}, 0},                       // the outermost
      {{2, 5, 6, 16}, {0, 2, 1, 3}, lowering::kNoTile},  // rows move whole
      {{40, 3}, {1, 0}, lowering::kNoTile},              // too short
  };
  for (const Case& c : cases) {
    Model m;
    m.graph.outputs = {m.neg(m.permute(m.input(c.shape), c.order))};
    const lowering::Plan plan = lowering::make_plan(m.graph, {});
    EXPECT_EQ(only_nest(plan).tile, c.tile) << only_nest(plan).print();
  }
}

TEST(Transposes, OfReductionsAreNot) {
  Model m;
  m.graph.outputs = {m.sum(m.add(m.input({40, 30}), m.transpose(m.input({30, 40}))), ir::Dims{1}, false)};
  for (const auto& step : lowering::make_plan(m.graph, {}).steps) EXPECT_FALSE(step.loops.nest.tiled());
}

// The sum of a permuted and a plain operand.
template <class T>
void check(DType type, uint32_t seeds) {
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    std::mt19937 random(seed);
    constexpr int64_t kSizes[] = {1, 2, 4, 7, 8, 15, 16, 17, 33, 64, 70};
    ir::Dims shape, order;
    for (size_t d = 0; d < 2 + random() % 2; ++d) shape.push_back(kSizes[random() % std::size(kSizes)]);
    for (size_t d = 0; d < shape.size(); ++d) order.push_back(static_cast<int64_t>(d));
    std::shuffle(order.begin(), order.end(), random);
    const ir::Dims turned = permuted(shape, order), strides = permuted(ir::contiguous_strides(shape), order);

    Model m;
    GuardedHost host;
    ir::Value x = m.input(type, shape), y = m.input(type, turned);
    m.graph.outputs = {m.add(m.permute(x, order), y)};
    std::vector<T> xs(static_cast<size_t>(ir::product(shape))), ys(xs.size()), want(xs.size());
    for (size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<T>(i % 97), ys[i] = static_cast<T>(i % 31);
    for (size_t i = 0; i < xs.size(); ++i) {
      int64_t rest = static_cast<int64_t>(i), at = 0;
      for (size_t d = turned.size(); d-- > 0; rest /= turned[d]) at += rest % turned[d] * strides[d];
      want[i] = static_cast<T>(xs[static_cast<size_t>(at)] + ys[i]);
    }
    auto e = jit::compile(m.graph, {});
    EXPECT_EQ(e->stats().kernels, 1);
    const Ran ran = run(*e, host, m.graph, {buffer_of(host, xs), buffer_of(host, ys)});
    EXPECT_EQ(values_of<T>(ran.outputs[0]), want) << "seed " << seed;
  }
}

TEST(Transposes, OfRandomShapesAndTypes) {
  check<float>(DType::F32, 40);
  check<double>(DType::F64, 20);
  check<int64_t>(DType::I64, 20);
  check<int32_t>(DType::I32, 20);
  check<int16_t>(DType::I16, 20);
  check<uint8_t>(DType::U8, 20);
}

}  // namespace
}  // namespace lazuli::testing
