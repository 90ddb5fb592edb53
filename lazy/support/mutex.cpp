#include "lazy/support/mutex.h"

#include <array>
#include <atomic>
#include <utility>
#include <vector>
#include <ATen/Parallel.h>
#include <pthread.h>
#include "ir/error.h"
#include "lazy/memory/backing.h"
#include "lazy/support/source.h"

namespace lazuli::lazy {
namespace {
std::atomic<bool> forked = false, settled = false, lost_gpu = false;
}

struct Fork {
  static constexpr size_t kMost = 32;
  static constexpr size_t kRanks = static_cast<size_t>(Rank::Leaf) + 1;
  std::array<std::array<std::atomic<Mutex*>, kMost>, kRanks> by_rank{};
  std::array<std::atomic<size_t>, kRanks> counts{};
  std::vector<Mutex*> held;  // while a process forks

  static Fork& get() {
    static auto* f = [] {
      pthread_atfork(&before, &in_parent, &in_child);
      return new Fork;  // outlives every thread
    }();
    return *f;
  }
  // Called with any mutex held: takes none.
  void add(Mutex* m, size_t rank) {
    const size_t i = counts[rank].fetch_add(1);
    LAZULI_CHECK(i < kMost, "there are more mutexes than a fork knows of");
    by_rank[rank][i] = m;
  }
  static void before() {
    WithoutPython released;
    std::vector<Mutex*> held;
    for (auto& list : get().by_rank)
      for (auto& m : list)
        if (Mutex* known = m) known->lock(), held.push_back(known);
    get().held = std::move(held);  // only now: another thread may have been forking
  }
  static void in_parent() {
    for (Mutex* m : std::exchange(get().held, {})) m->unlock();
  }
  // One that was made meanwhile may belong to a thread that is not here.
  static void in_child() {
    get().held.clear();
    for (auto& list : get().by_rank)
      for (auto& m : list)
        if (Mutex* known = m) known->reset();
    forked = true;
    settled = false;
    const Backing* device = Backing::if_chosen();
    lost_gpu = lost_gpu || (device && !device->shares_host_memory);
  }
};

Mutex::Mutex(Rank rank) { Fork::get().add(this, static_cast<size_t>(rank)); }

void Mutex::wait() {
  const WithoutPython released;
  while (state_.exchange(kWaitedFor, std::memory_order_acquire) != kFree)
    state_.wait(kWaitedFor, std::memory_order_relaxed);
  owner_.store(__builtin_thread_pointer(), std::memory_order_relaxed);
}

void Mutex::reset() {
  state_ = kFree;
  owner_ = nullptr;
  again_ = 0;
}

bool has_lost_gpu() { return lost_gpu; }
bool is_forked() { return forked.load(std::memory_order_relaxed); }

void settle_after_fork() {
  if (!is_forked()) [[likely]]
    return;
  TORCH_CHECK(!lost_gpu,
              "lazuli: this process was forked from one that used the device, and a GPU cannot be used in both; "
              "start it by the method 'spawn'");
  if (!settled.exchange(true)) at::set_num_threads(1);
}

}  // namespace lazuli::lazy
