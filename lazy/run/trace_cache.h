// Traces that were seen before, found again by hash and compared entry by entry.
#pragma once
#include <bit>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>
#include "jit/parts/part_cache.h"
#include "lazy/record/repetition.h"
#include "lazy/trace/trace.h"

namespace lazuli::lazy {

// What decides beside a trace how it is compiled: under other settings it is a new one.
struct Settings {
  lowering::MatmulSettings matmul;
  bool fusion, pack;
  int threads;  // that OpenMP would use
  std::string disable_passes, debug, other_sizes;
  friend bool operator==(const Settings&, const Settings&) = default;
};

Settings settings_now();

// A trace seen before: what its code is, what of it was alive, and what runs it.
struct KnownTrace {
  uint64_t key = 0;
  Settings settings;
  Trace code{0};  // without cells
  std::vector<ValueId> live;
  std::unique_ptr<jit::Executable> executable;  // null when nothing was alive
  KnownTrace* successor = nullptr;              // the trace that came next, the last time
  std::optional<Repetition> loop;               // which the trace's end cut
  bool is_long = false;                         // so long that it is worth ending a trace for
  uint64_t used = 0;                            // when it ran last, by the cache's clock
};
using KnownRef = std::shared_ptr<KnownTrace>;  // a job or an outer sync may run what the cache has forgotten

// Counts new traces with no known one between them. Small ones, such as peeks, have no say beside large ones.
class NewInARow {
 public:
  // How many there would be, with this one, of so many entries.
  int64_t if_new(size_t size) const { return 2 * size < last_ ? count_ : count_ + 1; }
  // How many there are, with this one.
  int64_t is_new(size_t size) {
    constexpr size_t kForgets = 32;  // how slowly a program that has no large ones any more is believed
    if (2 * size < last_) {
      last_ -= (last_ + kForgets - 1) / kForgets;
      return count_;
    }
    last_ = largest_ = size;
    return ++count_;
  }
  void is_known(size_t size) {
    if (2 * size >= largest_) count_ = 0, last_ = largest_ = 0;
  }

 private:
  int64_t count_ = 0;
  size_t last_ = 0;     // what a new trace must not be much smaller than
  size_t largest_ = 0;  // nor one that is known, to end the row
};

// Known traces, and what tells whether one is coming.
struct TraceCache {
  static TraceCache& get();

  std::unordered_multimap<uint64_t, KnownRef> traces;
  jit::PartCache parts;
  struct RunsInParts {
    int64_t count = 0;
    int64_t most = 0;   // how often it should, by what it computes
    bool cut = false;   // whether it does
    bool loop = false;  // most of it are turns of a loop
  };
  // How many large traces have run in parts since the last one was planned. Beside what the first steps made and keep,
  // such as an optimizer's moments, what they leave in the heap has no room for what comes next; later steps find in it
  // what they leave themselves.
  uint64_t large_runs_in_parts = 0;
  bool is_heap_new() { return ++large_runs_in_parts <= 4 || std::has_single_bit(large_runs_in_parts); }
  NewInARow novelty;
  uint64_t clock = 0;
  KnownTrace* previous = nullptr;
  // The known trace that the current one is expected to repeat, while it does as far as hashes tell: they say what
  // lines ops have and where a loop is cut, and nothing that results depend on.
  KnownTrace* expected = nullptr;
  bool learning = true;

  // `live`: the values that somebody can read when the trace ends.
  KnownRef find(uint64_t key, const Settings& settings, const Trace& trace, const std::vector<ValueId>& live);
  KnownRef add(uint64_t key, KnownRef known);
  // Whether a known trace began like this one, as far as hashes tell.
  bool knows_beginning(const Trace& trace) const;
  // Whether a long known trace is all of this one, as far as hashes tell. It is asked at each op.
  bool may_be_long(const Trace& trace) const {
    return (long_sizes_ >> trace.size() % 64 & 1) && long_.contains(trace.hash());
  }
  // `done`: the known trace that has just ended; null: none.
  void predict(KnownTrace* done);
  // While the trace goes the way of a known one, its lines are that one's: those of its first `count` ops.
  void take_known_lines(Trace& trace, size_t count) const;

  // How often a trace has run in parts. It only says when to plan it whole, so that a hash will do.
  RunsInParts& runs_of(uint64_t key);
  const RunsInParts* runs_before(uint64_t key) const;  // null: none
  // The trace `key` is from now on the trace `as`.
  void go_on_counting(uint64_t key, uint64_t as);
  void forget_runs_of(uint64_t key) { runs_in_parts_.erase(key); }
  // Traces that run in parts and came again lately, of which nothing has to be made to run them once more. `known` has
  // no code.
  KnownRef find_recent(uint64_t key, const Settings& settings, const Trace& trace, const std::vector<ValueId>& live);
  void add_recent(uint64_t key, KnownRef known, const Trace& trace);
  // But those of known traces and parts, of `trace`, and of what is being recorded.
  void forget_external_calls(const Trace& trace);

 private:
  static constexpr size_t kStride = 16;  // entries between places at which beginnings are kept
  void forget(const Trace& added);
  void count(const KnownTrace& known, int by);
  std::unordered_map<uint64_t, RunsInParts> runs_in_parts_;  // of traces that are not known yet, by their key
  static constexpr size_t kRecent = 8;
  struct Recent {
    uint64_t key;
    KnownRef known;
    Trace code;
  };
  std::list<Recent> recent_;                      // the latest used first
  std::unordered_map<uint64_t, int> beginnings_;  // how many have each running hash there
  std::unordered_map<uint64_t, int> long_;        // and how many long ones each hash of them all
  uint64_t long_sizes_ = 0;                       // a bit for each of their sizes, modulo 64, also of forgotten ones
};

uint64_t key_of(const Settings& settings, const Trace& trace, const std::vector<ValueId>& live);

}  // namespace lazuli::lazy
