// Finds that the trace has begun to repeat itself, and says where to end it. A loop that never reads a value, and has
// no optimizer whose step ends a trace, would otherwise be cut wherever a bound on pending work falls: at another place
// of an iteration each time, which is another trace to compile each time.
//
// What is looked for is a period of equal entries, whose operands are results of the period before or the same values
// in every period, and which leaves something: state that it carries on, or a result that somebody keeps. The layers of
// a network repeat too, and so does an optimizer that goes through equal parameters, but each reads values of its own;
// so a period must use again more values than it brings, unless it has been seen more often than networks are deep. Of
// older periods next to nothing may still be held: a forward pass that keeps its activations has more to come.
//
// Looking happens at sizes that double and at a bound on bytes, so that recording pays one comparison an op. A block
// that comes several times (block.h) is looked at sooner, and cut into shorter traces: it is recorded so fast that a
// device which waits for the trace's end would have nothing to do meanwhile. The cut goes where the fewest bytes are
// carried over, usually the end of the loop's body; from then on a trace is a few whole periods, and they are equal.
#pragma once
#include <cstdint>
#include <vector>
#include "lazy/trace/trace.h"

namespace lazuli::lazy {

class Repetition {
 public:
  // The number of entries from which look() has something to say.
  size_t due() const { return due_; }
  void wait_until(size_t entries) { due_ = entries; }
  // A block is about to be recorded.
  void begins_block(const void* block, const Trace& trace);
  bool in_loop() const { return !period_.empty(); }
  // Whether the trace should end here, before the next op is recorded.
  bool look(const Trace& trace);
  // The trace ended for another reason, which may well end the following ones.
  void restart();

 private:
  static constexpr size_t kFirstLook = 1024;
  static constexpr size_t kTraceEntries = 512, kTraceEntriesOfBlocks = 128;  // that make a cut worth its cost
  bool find(const Trace& trace);
  bool goes_on(const Trace& trace, size_t body) const;

  size_t due_ = kFirstLook;
  std::vector<uint64_t> period_;  // what kinds of entries it has, in step with the trace's; empty while unknown
  size_t known_ = 0;              // how many of the trace's entries have been compared with the period
  size_t cut_at_ = 0;             // where the trace should end; entries that are no inputs count
  uint64_t last_cut_ = 0;         // hash of the trace that ended so before
  size_t trace_entries_ = kTraceEntries;
  const void* block_ = nullptr;  // the trace's first one
  size_t block_count_ = 0;       // how often it came
};

}  // namespace lazuli::lazy
