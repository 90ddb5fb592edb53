// How a launch's steps are put together for a GPU: every step once, with others of its variant, as many as fit.
#include <set>
#include "jit/devices/cuda/launch.h"
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using ir::Op;
using jit::cuda::GroupLaunch;
using lowering::make_plan;
using lowering::Plan;

std::vector<GroupLaunch> launches_of(const Plan& plan) {
  const auto [first, last] = plan.launch(0);
  EXPECT_EQ(last, plan.steps.size()) << "the steps of these plans are one launch";
  return jit::cuda::choose_launches({plan.steps.data() + first, last - first}, {});
}

void expect_every_step_once(const std::vector<GroupLaunch>& launches, size_t steps) {
  std::multiset<size_t> seen;
  for (const GroupLaunch& g : launches) {
    EXPECT_EQ(g.steps.size(), g.members.size());
    EXPECT_LE(g.steps.size(), g.variant.members);
    seen.insert(g.steps.begin(), g.steps.end());
    for (const lowering::GpuLaunch& m : g.members) {
      lowering::GpuVariant one = g.variant;
      one.members = 1;
      EXPECT_EQ(m.variant.print(), one.print());
    }
  }
  EXPECT_EQ(seen.size(), steps);
  EXPECT_EQ(std::set<size_t>(seen.begin(), seen.end()).size(), steps);
}

TEST(CudaLaunches, OfOneVariantAreOne) {
  Model m;
  for (int64_t n : {4096, 8192, 40960}) m.graph.outputs.push_back(m.add(m.input({n}), m.input({n})));
  const auto launches = launches_of(make_plan(m.graph, {.tiles = false}));
  ASSERT_EQ(launches.size(), 1u);
  expect_every_step_once(launches, 3);
  EXPECT_EQ(launches[0].variant.members, 4);
  EXPECT_EQ(first_block(launches[0], 1), launches[0].members[0].grid[0]);
}

TEST(CudaLaunches, OfOtherAlignmentAreApart) {
  Model m;
  for (int64_t n : {4096, 4097, 1, 8192}) m.graph.outputs.push_back(m.apply(Op::exp, {m.input({n})}));
  const auto launches = launches_of(make_plan(m.graph, {.tiles = false}));
  EXPECT_GT(launches.size(), 1u);
  expect_every_step_once(launches, 4);
}

TEST(CudaLaunches, AsManyAsParametersHold) {
  Model m;
  for (int64_t n = 0; n < 200; ++n) m.graph.outputs.push_back(m.add(m.input({256 + 4 * n}), m.input({256 + 4 * n})));
  const Plan plan = make_plan(m.graph, {.tiles = false});
  const auto launches = launches_of(plan);
  expect_every_step_once(launches, 200);
  EXPECT_LE(launches.size(), 4u);
  for (const GroupLaunch& g : launches)
    EXPECT_LE(lowering::GpuGroupLayout(plan.steps[0].loops.nest, g.variant.members).total * sizeof(int64_t), 32764u);
}

}  // namespace
}  // namespace lazuli::testing
