// The memory that plans share for their temporaries.
#include "jit/run/arena_pool.h"
#include <gtest/gtest.h>

namespace lazuli::jit {
namespace {

constexpr size_t kSmall = 1 << 16, kLarge = 1 << 18;

struct ArenaPool : testing::Test {
  ArenaPool() { trim_arena_pool(); }
  ~ArenaPool() override { trim_arena_pool(); }
};

TEST_F(ArenaPool, PlansThatRunOneAfterTheOtherShareTheLargestArena) {
  for (size_t bytes : {kSmall, kLarge, kSmall}) const Arena arena(bytes);
  EXPECT_EQ(arena_pool_bytes(), kLarge);
}

TEST_F(ArenaPool, PlansThatRunAtOnceEachKeepTheirs) {
  {
    const Arena step(kLarge), within(kSmall);
    EXPECT_NE(step.data(), within.data());
  }
  EXPECT_EQ(arena_pool_bytes(), kLarge + kSmall);
}

TEST_F(ArenaPool, AnArenaThatGrowsReplacesTheLargestOne) {
  { const Arena step(kLarge), within(kSmall); }
  { const Arena grown(2 * kLarge); }
  EXPECT_EQ(arena_pool_bytes(), 2 * kLarge + kSmall);
}

}  // namespace
}  // namespace lazuli::jit
