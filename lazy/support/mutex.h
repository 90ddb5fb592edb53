// Mutexes for state that all threads share. What they add to the standard library's:
//
// - Who waits for one lets go of Python's interpreter lock meanwhile. Its holder may need that lock (current_line), and
//   a caller may hold it: torch keeps it in many short calls.
// - Forking takes all of them before, so that the child finds the state whole and every mutex free. What is made while
//   another thread forks may be half-made in the child for ever: whatever is not under another is made at the start.
#pragma once
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
    if (!mutex_.try_lock()) wait();
  }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  friend struct Fork;
  void wait();
  std::recursive_mutex mutex_;
};

// Whether this process was forked from one that used the device, which has left it one thread: what other threads did
// is not going on here, and OpenMP's workers are gone.
bool is_forked();
// Call before work in a process that may be a child: computing then stays on one thread. Throws a torch error if values
// are on a GPU, which cannot be used after a fork.
void settle_after_fork();
bool has_lost_gpu();

}  // namespace lazuli::lazy
