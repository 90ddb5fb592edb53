#include "lowering/fusion/run_order.h"
#include <algorithm>
#include <random>
#include <gtest/gtest.h>
#include "ir/error.h"

namespace lazuli::lowering {
namespace {

using Order = std::vector<uint32_t>;

TEST(RunOrder, IsTheProgramsWhereNothingIsFreed) {
  // Values 0 and 1 are as large as what is made of them.
  const std::vector<Task> tasks = {{2, {}, {}, {0}}, {1, {}, {}, {1}}, {3, {0}, {0}, {2}}, {4, {1}, {1}, {3}}};
  EXPECT_EQ(run_order(tasks, {8, 8, 8, 8}, {false, false, true, true}), (Order{1, 0, 2, 3}));
}

TEST(RunOrder, SumsRunAfterTheLastOtherReader) {
  // 0 makes a large value, 1 and 2 read it, 3 sums it, and the program speaks of 3 last.
  const std::vector<Task> tasks = {{0, {}, {}, {0}},   {1, {0}, {0}, {1}}, {2, {0}, {0}, {2}},
                                   {9, {0}, {0}, {3}}, {4, {1}, {1}, {4}}, {5, {4}, {4}, {5}}};
  EXPECT_EQ(run_order(tasks, {100, 100, 100, 1, 100, 100}, {false, false, true, true, false, true}),
            (Order{0, 1, 2, 3, 4, 5}));
}

TEST(RunOrder, WhatStaysIsNotFreed) {
  const std::vector<Task> tasks = {{0, {}, {}, {0}}, {9, {0}, {0}, {1}}, {4, {}, {}, {2}}};
  EXPECT_EQ(run_order(tasks, {100, 1, 100}, {true, true, true}), (Order{0, 2, 1}));
  EXPECT_EQ(run_order(tasks, {100, 1, 100}, {false, true, true}), (Order{0, 1, 2}));
}

TEST(RunOrder, FreesOnlyWhatIsReady) {
  // 2 would free the large value, but waits for 1, which comes late.
  const std::vector<Task> tasks = {{0, {}, {}, {0}}, {5, {}, {}, {1}}, {6, {0, 1}, {0, 1}, {2}}, {3, {}, {}, {3}}};
  EXPECT_EQ(run_order(tasks, {100, 1, 1, 50}, {false, false, true, true}), (Order{0, 3, 1, 2}));
}

TEST(RunOrder, TasksThatWaitForEachOtherAreAnError) {
  const std::vector<Task> tasks = {{0, {1}, {1}, {0}}, {1, {0}, {0}, {1}}};
  EXPECT_THROW(run_order(tasks, {1, 1}, {false, false}), InternalError);
}

TEST(RunOrder, RandomTasksRunOnceEachAfterTheirSources) {
  std::mt19937 random(0);
  auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  for (int round = 0; round < 200; ++round) {
    const uint32_t count = 1 + below(40);
    std::vector<Task> tasks(count);
    std::vector<ir::Size> bytes(count);
    std::vector<bool> kept(count);
    for (uint32_t t = 0; t < count; ++t) {
      tasks[t].place = below(count);
      tasks[t].writes = {t};
      bytes[t] = below(100);
      kept[t] = below(4) == 0;
      for (uint32_t s = 0; s < t; ++s)
        if (below(4) == 0) tasks[t].sources.push_back(s), tasks[t].reads.push_back(s);
    }
    std::vector<bool> ran(count);
    for (uint32_t t : run_order(tasks, bytes, kept)) {
      EXPECT_FALSE(ran[t]);
      for (uint32_t s : tasks[t].sources) EXPECT_TRUE(ran[s]);
      ran[t] = true;
    }
    EXPECT_EQ(std::count(ran.begin(), ran.end(), true), count);
  }
}

}  // namespace
}  // namespace lazuli::lowering
