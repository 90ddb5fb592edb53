// Mutexes for state that all threads share. What they add to the standard library's:
//
// - One that is free costs half as much, and each op that is recorded takes some.
// - Who waits for one lets go of Python's interpreter lock meanwhile. Its holder may need that lock (current_line), and
//   a caller may hold it: torch keeps it in many short calls.
// - Forking takes all of them before, so that the child finds the state whole and every mutex free. What is made while
//   another thread forks may be half-made in the child for ever: whatever is not under another is made at the start.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>

namespace lazuli::lazy {

// Taken by a thread in this order, and by a fork.
enum class Rank : uint8_t { Entry, Recorder, Graph, Ahead, Leaf };  // under a leaf nothing else is locked

// Recursive.
class Mutex {
 public:
  explicit Mutex(Rank rank);
  Mutex(const Mutex&) = delete;
  void lock() {
    if (!try_lock()) wait();
  }
  bool try_lock() {
    if (owner_.load(std::memory_order_relaxed) == __builtin_thread_pointer()) {
      ++again_;
      return true;
    }
    int free = kFree;
    if (!state_.compare_exchange_strong(free, kTaken, std::memory_order_acquire, std::memory_order_relaxed))
      return false;
    owner_.store(__builtin_thread_pointer(), std::memory_order_relaxed);
    return true;
  }
  void unlock() {
    if (again_) {
      --again_;
      return;
    }
    owner_.store(nullptr, std::memory_order_relaxed);
    if (state_.exchange(kFree, std::memory_order_release) == kWaitedFor) state_.notify_one();
  }

 private:
  friend struct Fork;
  static constexpr int kFree = 0, kTaken = 1, kWaitedFor = 2;
  void wait();
  void reset();  // to free, whoever has it
  std::atomic<int> state_ = kFree;
  std::atomic<const void*> owner_ = nullptr;
  int again_ = 0;  // how many more times the owner has it
};

// Whether this process was forked from one that used the device, which has left it one thread: what other threads did
// is not going on here, and OpenMP's workers are gone.
bool is_forked();
// Call before work in a process that may be a child: computing then stays on one thread. Throws a torch error if values
// are on a GPU, which cannot be used after a fork.
void settle_after_fork();
bool has_lost_gpu();

}  // namespace lazuli::lazy
