// Launches of several kernels: which steps join, what stays in order, and whose memory lives how long.
#include <set>
#include "lowering/plan/joint_launches.h"
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using ir::Op;
using ir::Value;
using lowering::Block;
using lowering::make_plan;
using lowering::Plan;
using lowering::PlanStep;

std::vector<size_t> launches_of(const Plan& plan) {
  std::vector<size_t> sizes;
  for (uint32_t s = 0; s < plan.steps.size(); s = plan.launch(s).last) sizes.push_back(plan.launch(s).last - s);
  return sizes;
}

// The bytes that a step of one dimension reads and writes, by block or, in the arena, by offset.
struct Touched {
  std::set<std::pair<uint32_t, int64_t>> read, written;
};
Touched touched(const Plan& plan, const PlanStep& step) {
  Touched t;
  for (size_t a = 0; a < step.blocks.size(); ++a) {
    const Block& block = plan.blocks[step.blocks[a]];
    const lowering::Access& access = step.loops.nest.accesses[a];
    const lowering::BoundAccess& bound = step.loops.accesses[a];
    const int64_t item = ir::item_size(access.dtype);
    ir::Dims at(step.loops.sizes.size(), 0);
    for (int64_t i = 0; i < ir::product(step.loops.sizes); ++i) {
      int64_t element = bound.offset, rest = i;
      for (size_t d = at.size(); d-- > 0; rest /= step.loops.sizes[d])
        element += rest % step.loops.sizes[d] * bound.strides[d];
      const bool arena = block.kind == Block::Arena;
      (access.store ? t.written : t.read)
          .insert({arena ? block.host : step.blocks[a], (arena ? block.offset : 0) + element * item});
    }
  }
  return t;
}
bool meet(const Touched& a, const Touched& b) {
  return std::any_of(a.written.begin(), a.written.end(),
                     [&](const auto& place) { return b.read.contains(place) || b.written.contains(place); });
}

void expect_independent(const Plan& plan) {
  for (uint32_t s = 0; s < plan.steps.size(); s = plan.launch(s).last) {
    const auto [first, last] = plan.launch(s);
    std::vector<Touched> members;
    for (uint32_t m = first; m < last; ++m) members.push_back(touched(plan, plan.steps[m]));
    for (size_t a = 0; a < members.size(); ++a) {
      EXPECT_TRUE(plan.steps[first].loops.nest == plan.steps[first + a].loops.nest);
      for (size_t b = 0; b < members.size(); ++b)
        EXPECT_FALSE(a != b && meet(members[a], members[b])) << "steps " << first + a << " and " << first + b;
    }
  }
}

TEST(Group, KernelsOfOneNestAreOneLaunch) {
  Model m;
  for (int64_t n : {3, 500, 40, 7000}) m.graph.outputs.push_back(m.add(m.input({n}), m.input({n})));
  EXPECT_EQ(launches_of(make_plan(m.graph, {})), std::vector<size_t>{4});
  EXPECT_EQ(launches_of(make_plan(m.graph, {.groups = false})), (std::vector<size_t>{1, 1, 1, 1}));
}

TEST(Group, StepsInTurnsComeTogether) {
  Model m;
  for (int64_t n = 10; n < 15; ++n) {
    m.graph.outputs.push_back(m.apply(Op::sqrt, {m.input({n})}));
    m.graph.outputs.push_back(m.apply(Op::exp, {m.input({2 * n + 1})}));
  }
  EXPECT_EQ(launches_of(make_plan(m.graph, {})), (std::vector<size_t>{5, 5}));
}

TEST(Group, WhatReadsAnothersResultWaits) {
  Model m;
  auto x = m.input({8, 8}), w = m.input({8, 8});
  for (int i = 0; i < 4; ++i) x = m.apply(Op::cumsum, {m.apply(Op::exp, {x})}, ir::Attrs{{0}});
  m.graph.outputs = {x, m.apply(Op::exp, {w})};
  const Plan plan = make_plan(m.graph, {});
  expect_independent(plan);
  for (size_t n : launches_of(plan)) EXPECT_LE(n, 2u);
}

TEST(Group, PiecesOfOneConcatenationAreOneLaunch) {
  Model m;
  std::vector<Value> pieces;
  for (int64_t n : {30, 40, 50}) {
    const Value x = m.input({n});
    pieces.push_back(m.sum(m.mul(x, x), ir::Dims{0}, true));
  }
  m.graph.outputs = {m.emit(Op::cat, pieces, ir::Attrs{{0}})};
  const Plan plan = make_plan(m.graph, {});
  EXPECT_EQ(launches_of(plan), std::vector<size_t>{3});
  expect_independent(plan);
}

TEST(Group, AResultMayTakeTheMemoryOfItsOwnOperandOnly) {
  Model m;
  auto x = m.input({300}), y = m.input({301});
  m.graph.outputs = {m.add(x, 1.0), m.add(y, 1.0)};
  m.graph.donated = {true, true};
  const Plan plan = make_plan(m.graph, {});
  EXPECT_EQ(launches_of(plan), std::vector<size_t>{2});
  expect_independent(plan);
}

// A chain whose every link is large, beside small sums that could wait for each other at the cost of keeping the links.
TEST(Group, LargeMemoryIsNotKeptForALaunch) {
  Model m;
  auto x = m.input({128, 1024});
  for (int i = 0; i < 12; ++i) {
    x = m.apply(Op::cumsum, {x}, ir::Attrs{{0}});
    m.graph.outputs.push_back(m.sum(x, ir::Dims{0}, false));
  }
  const Plan with = make_plan(m.graph, {}), without = make_plan(m.graph, {.groups = false});
  expect_independent(with);
  EXPECT_LE(with.arena_bytes, without.arena_bytes + without.arena_bytes / 16 + (128 << 10));
}

TEST(Group, TemporariesOfALaunchAreAliveTogether) {
  Model m;
  for (int64_t n : {30, 50, 70}) {
    auto c = m.apply(Op::cumsum, {m.apply(Op::exp, {m.input({n})})}, ir::Attrs{{0}});
    m.graph.outputs.push_back(m.apply(Op::sqrt, {c}));
  }
  const Plan plan = make_plan(m.graph, {});
  expect_independent(plan);
  EXPECT_EQ(launches_of(plan).front(), 3u);
}

}  // namespace
}  // namespace lazuli::testing
