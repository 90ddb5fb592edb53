// Runs traces. On the CPU at once, on the thread that ended the trace. On a GPU on a thread of its own, which only
// enqueues work there: meanwhile the user's thread records the next trace, and neither waits for the other until a
// value is read.
#pragma once
#include <cstdint>
#include <functional>

namespace lazuli::lazy {

class Runner {
 public:
  static Runner& get();
  // Runs `job` after all earlier ones. On the CPU what it throws comes from here; on a GPU from the next wait(). Blocks
  // while a few jobs are waiting already.
  void submit(std::function<void()> job);
  // The number that the next job will get; jobs are submitted under the recorder's lock.
  uint64_t next();
  // Every job up to this number has run, and the device is done with it.
  uint64_t completed();
  // Whether there is no job that has not run.
  bool is_idle() { return completed() + 1 == next(); }
  // For the process's end: waits if there ever was a job, and throws nothing.
  static void end();
  // Until every job has run; then throws what the first failing one threw, once.
  void wait();
  // The same, but failures are left for the next wait().
  void drain();
  // Whether the caller is a job, which must not wait for itself.
  static bool is_running();

 private:
  struct Worker;
  Runner();
  Worker* worker_ = nullptr;  // null on the CPU
};

}  // namespace lazuli::lazy
