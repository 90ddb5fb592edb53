// Works on the parts of a trace that is new while its rest is still being recorded (jit/parts/parts_ahead.h): recording
// takes one core, and the others have nothing else to do. One of the crew's threads (lowering/threads/crew.h) runs
// parts that have plans, for other sizes, too, alone; when the trace ends it stops, and whatever it has not come to is
// done as ever. No result depends on how far it came.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include "jit/parts/parts_ahead.h"
#include "lazy/support/mutex.h"
#include "lazy/trace/trace.h"
#include "lowering/threads/crew.h"

namespace lazuli::lazy {

class RunAhead {
 public:
  static RunAhead& get() {
    static auto* r = new RunAhead;  // outlives every thread
    return *r;
  }
  // Hands over what the trace has recorded, if that is worth it. Under the recorder's lock.
  void look(const Trace& trace) {
    if (trace.size() >= due_) [[unlikely]]
      look_again(trace);
  }
  // What was made of the trace so far; null: nothing. While halted.
  jit::PartsAhead* made();
  // The trace has ended, or is given up. While halted.
  void forget();
  // The process ends.
  static void end();

  // While one lives, that thread does nothing, and its parts and their cache are the caller's.
  class Halt {
   public:
    Halt();
    ~Halt();
    Halt(const Halt&) = delete;
  };

 private:
  static constexpr size_t kChunk = 16;  // entries
  RunAhead() = default;
  void look_again(const Trace& trace);
  static bool may_start();
  bool makes_room();
  bool start();  // false where there is no thread for it
  void hand_over(const Trace& trace);
  bool step();        // on that thread; false if there is nothing to do
  bool take_inbox();  // false if it was empty

  // Room for the thread where OpenMP's are awake.
  struct Room {
    double began_us = 0;     // when the trace was looked at first
    double recorded_us = 0;  // that the last new trace took from there on
    bool is_made = false;
    int waits = 0, next_waits = 1;  // new traces for which it is not made: those after it was of little use
  } room_;
  size_t due_ = kChunk;
  Trace::Place handed_{};  // how much of the trace, and of the following
  size_t handed_scalars_ = 0, handed_seams_ = 0;
  // What the thread works on, and it while it does.
  Mutex busy_{Rank::Ahead};
  std::unique_ptr<jit::PartsAhead> parts_;
  std::atomic<int> halting_ = 0;
  lowering::FloatMode float_mode_ = lowering::FloatMode::here();  // under which the trace is recorded
  std::mutex mutex_;
  jit::PartsAhead::Recorded inbox_;  // from the one thread to the other
};

}  // namespace lazuli::lazy
