// Counters of what happened, for torch.lazuli.metrics() and explain().
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include "jit/kernels/kernel.h"
#include "jit/run/executable.h"
#include "lazy/support/mutex.h"

namespace lazuli::lazy {

// Why a trace ended; one counter each.
enum class SyncReason : uint8_t {
  Read,
  Step,
  Bound,
  Repeat,
  Known,
  Peeked,
  Explicit,
  DataDependent,
  NewCall,
  HostCopy,
  Collective
};
const char* name(SyncReason r);

// Microseconds of the steady clock.
double now_us();

struct Event {  // one line of explain()
  // "sync", "peek", "external", "compile", "new plan", "shadow", "new trace", "moved again", "autograd node",
  // "kept history", "not captured"
  std::string kind;
  std::string what;
  std::string where;  // Python line
  friend auto operator<=>(const Event&, const Event&) = default;
};
struct EventTotal {
  int64_t count = 0;
  double time_us = 0;
};

// Of the traces that ended at one line: where sizes vary there are many.
struct Compilations {
  EventTotal total;
  size_t fewest_ops = SIZE_MAX, most_ops = 0;
  int64_t parts = 0, new_parts = 0, unplanned_parts = 0, resized_parts = 0, parts_ahead = 0;
};

class Metrics {
 public:
  int64_t peeks = 0, ops_recorded = 0, traces_compiled = 0, traces_in_parts = 0, traces_reused = 0, parts_compiled = 0,
          parts_reused = 0, parts_unplanned = 0, parts_resized = 0, parts_ahead = 0, ops_executed = 0;
  std::atomic<int64_t> autograd_nodes = 0;                             // made for what was recorded without
  std::atomic<int64_t> runs_captured = 0, captured_runs_launched = 0;  // on a GPU
  int64_t appends_in_place = 0;      // what torch.cat put behind a tensor where that lies (lazy/record/appending.h)
  int64_t derivatives_repeated = 0;  // of ops whose backward was recorded again as before
  std::atomic<int64_t> traces_shadowed = 0, derivatives_shadowed = 0, shadow_mismatches = 0;
  double compile_ms = 0, run_ms = 0;
  jit::HostCost cutting, unplanned, resizing;
  void ran(double us);
  void external(const std::string& op, const std::string& where, double us);
  // `derivative`: whose formula has asked for it, if a derivative has.
  void sync(SyncReason reason, const std::string& derivative, const std::string& where, double us);
  void peek(const std::string& what, const std::string& where, double us);
  // Something worth a line of explain().
  void noticed(const char* kind, const std::string& what, const std::string& where);
  void compiled(size_t ops, const jit::CompileStats& stats, const std::string& where, double us);
  // JSON, with kernel and memory counters filled in.
  std::string json();
  // JSON list of events since the last call.
  std::string explain();
  // The same of all events since keep_events(true), whoever calls explain() meanwhile; without compilations.
  std::string kept_events();
  void keep_events(bool keep);
  void reset();

 private:
  void note(Event e, double us);
  Mutex mutex_{Rank::Leaf};
  std::map<std::string, int64_t> external_calls_, syncs_;
  std::map<Event, EventTotal> events_, kept_events_;
  bool keeps_events_ = false;
  std::map<std::string, Compilations> compilations_;  // by line
  jit::KernelStats kernels_base_;                     // at the last reset
};
Metrics& metrics();

}  // namespace lazuli::lazy
