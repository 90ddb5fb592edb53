// What is shared out is done once, all of it, by whoever is there.
#include "lowering/threads/crew.h"
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>
#include <gtest/gtest.h>

namespace lazuli::lowering {
namespace {

void expect_each_once(int64_t n, int threads) {
  std::vector<std::atomic<int>> times(static_cast<size_t>(n));
  std::vector<std::atomic<int>> busy(static_cast<size_t>(threads));
  std::atomic<bool> alone = true;
  share_out(n, threads, [&](int64_t begin, int64_t end, int worker) {
    if (worker >= threads || busy[static_cast<size_t>(worker)]++ != 0) alone = false;
    for (int64_t i = begin; i < end; ++i) ++times[static_cast<size_t>(i)];
    --busy[static_cast<size_t>(worker)];
  });
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(times[static_cast<size_t>(i)], 1) << i << " of " << n;
  EXPECT_TRUE(alone) << "a worker's number is its own while it works";
}

TEST(Crew, DoesEachOnce) {
  const Threads four(4);
  for (int round = 0; round < 50; ++round)
    for (int64_t n : {0, 1, 2, 3, 7, 16, 17, 1000}) expect_each_once(n, 4);
}

TEST(Crew, OneThreadMayDoItAll) {
  const OneThread one;
  EXPECT_EQ(crew_size(), 1);
  expect_each_once(100, 1);
}

TEST(Crew, GoesOnWithoutThoseThatSleep) {
  const Threads four(4);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    expect_each_once(64, 4);
  }
}

TEST(Crew, SharesWithinWhatIsShared) {
  const Threads four(4);
  std::atomic<int64_t> sum = 0;
  share_out(8, 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) share_out(100, 4, [&](int64_t b, int64_t e, int) { sum += e - b; });
  });
  EXPECT_EQ(sum, 800);
}

TEST(Crew, ServesSeveralThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      const Threads four(4);
      for (int round = 0; round < 200; ++round) expect_each_once(50, 4);
    });
  for (std::thread& t : threads) t.join();
}

TEST(Crew, UsesOpenmpWhileThatIsAwake) {
  const Threads four(4);
  openmp_has_worked();
  expect_each_once(1000, 4);
}

std::atomic<int> left = 0, done = 0;
std::atomic<int64_t> shared = 0;

void wait_for(int steps) {
  while (done < steps) std::this_thread::yield();
}

TEST(Crew, WorksInTheBackground) {
  const Threads two(2);
  ASSERT_TRUE(begin_background([] {
    if (left == 0) return false;
    --left;
    ++done;
    return true;
  }));
  done = 0, left = 100;
  continue_background();
  // What is shared meanwhile interrupts it, and then it goes on.
  for (int i = 0; i < 20; ++i) expect_each_once(100, 2);
  wait_for(100);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // until the threads sleep
  expect_each_once(100, 2);
  done = 0, left = 3;
  continue_background();
  wait_for(3);
}

TEST(Crew, WhoWaitsForTheBackgroundHelpsIt) {
  const Threads two(2);
  done = 0;
  shared = 0;
  ASSERT_TRUE(begin_background([] {
    if (done) return false;
    for (int i = 0; i < 200; ++i) share_out(1000, true, [](int64_t begin, int64_t end, int) { shared += end - begin; });
    done = 1;
    return false;
  }));
  continue_background();
  help_background([] { return done == 1; });
  EXPECT_EQ(shared, 200'000);
}

// Denormals are flushed, or not, whoever computes.
TEST(Crew, ComputesAsWhoSharesOut) {
  const Threads four(4);
  const auto count_zeros = [] {
    std::atomic<int> zeros = 0;
    share_out(64, 4, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        volatile float small = 1e-38f;
        small = small * 0.1f;
        zeros += small == 0;
      }
    });
    return zeros.load();
  };
  const unsigned before = _mm_getcsr();
  for (int round = 0; round < 20; ++round) {
    if (round % 2) openmp_has_worked();  // whose threads then do the work
    EXPECT_EQ(count_zeros(), 0);
    _mm_setcsr(before | 0x8040);
    EXPECT_EQ(count_zeros(), 64);
    _mm_setcsr(before);
  }
}

TEST(Crew, HasNoBackgroundForOneThread) {
  const OneThread one;
  EXPECT_FALSE(begin_background([] { return false; }));
}

}  // namespace
}  // namespace lazuli::lowering
