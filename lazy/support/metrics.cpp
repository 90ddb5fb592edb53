#include "lazy/support/metrics.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <sstream>
#include <utility>
#include "lazy/memory/memory.h"
#include "lazy/support/host_time.h"
#include "lazy/support/kept_history.h"
#include "lazy/support/source.h"

namespace lazuli::lazy {
namespace {

std::string quoted(const std::string& s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      out += ' ';
    else
      out += c;
  }
  return out + "\"";
}

template <class Map>
std::string object(const Map& m) {
  std::ostringstream out;
  out.precision(12);
  const char* separator = "{";
  for (const auto& [k, v] : m) out << std::exchange(separator, ", ") << quoted(k) << ": " << v;
  return m.empty() ? "{}" : out.str() + "}";
}

void add(EventTotal& total, double us) {
  ++total.count;
  total.time_us += us;
}

// "traces of 32 to 512 ops, in 61 parts, 3 of them new, 8 for other sizes, 40 run while recording"
std::string text(const Compilations& c) {
  std::string out = c.total.count == 1 ? "trace of " : "traces of ";
  out += std::to_string(c.fewest_ops);
  if (c.most_ops > c.fewest_ops) out += " to " + std::to_string(c.most_ops);
  out += " ops";
  if (c.parts) out += ", in " + std::to_string(c.parts) + " parts, " + std::to_string(c.new_parts) + " of them new";
  if (c.unplanned_parts) out += ", " + std::to_string(c.unplanned_parts) + " op by op";
  if (c.resized_parts) out += ", " + std::to_string(c.resized_parts) + " for other sizes";
  if (c.parts_ahead) out += ", " + std::to_string(c.parts_ahead) + " run while recording";
  return out;
}

std::map<std::string, double> host_seconds_by_name() {
  const auto seconds = host_seconds();
  std::map<std::string, double> out;
  for (size_t i = 1; i < seconds.size(); ++i) out[name(static_cast<HostAccount>(i))] = seconds[i];
  return out;
}

using Events = std::map<Event, EventTotal>;

Events kept_history() {
  Events events;
  for (const auto& [where, count] : KeptHistory::counts())
    events[{"kept history", "operations that backward may reach", where}].count = count;
  return events;
}

std::string list(const Events& events) {
  std::ostringstream o;
  const char* separator = "[";
  for (const auto& [e, t] : events)
    o << std::exchange(separator, ", ") << "{\"kind\": " << quoted(e.kind) << ", \"what\": " << quoted(e.what)
      << ", \"count\": " << t.count << ", \"time_us\": " << t.time_us << ", \"where\": " << quoted(e.where) << "}";
  return events.empty() ? "[]" : o.str() + "]";
}

}  // namespace

double now_us() {
  using namespace std::chrono;
  return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}

const char* name(SyncReason r) {
  switch (r) {
    case SyncReason::Read:
      return "read";
    case SyncReason::Step:
      return "optimizer step";
    case SyncReason::Bound:
      return "bound on pending work";
    case SyncReason::Repeat:
      return "repetition";
    case SyncReason::Known:
      return "end of a known trace";
    case SyncReason::Peeked:
      return "much pending at a peek";
    case SyncReason::Explicit:
      return "synchronize";
    case SyncReason::DataDependent:
      return "data-dependent op";
    case SyncReason::NewCall:
      return "external call that is new";
    case SyncReason::HostCopy:
      return "copy to host";
    case SyncReason::Collective:
      return "collective";
  }
  return "?";
}

void Metrics::note(Event e, double us) {
  if (keeps_events_) add(kept_events_[e], us);
  add(events_[std::move(e)], us);
}
void Metrics::ran(double us) {
  std::lock_guard lock(mutex_);
  run_ms += us / 1000;
}
void Metrics::external(const std::string& op, const std::string& where, double us) {
  std::lock_guard lock(mutex_);
  ++external_calls_[op];
  note({"external", op, where}, us);
}
void Metrics::sync(SyncReason reason, const std::string& derivative, const std::string& where, double us) {
  std::lock_guard lock(mutex_);
  ++syncs_[name(reason)];
  note({"sync", name(reason) + (derivative.empty() ? "" : " in " + derivative), where}, us);
}
void Metrics::peek(const std::string& what, const std::string& where, double us) {
  std::lock_guard lock(mutex_);
  ++peeks;
  note({"peek", what, where}, us);
}
void Metrics::noticed(const char* kind, const std::string& what, const std::string& where) {
  std::lock_guard lock(mutex_);
  note({kind, what, where}, 0);
}
void Metrics::compiled(size_t ops, const jit::CompileStats& stats, const std::string& where, double us) {
  std::lock_guard lock(mutex_);
  ++(stats.parts ? traces_in_parts : traces_compiled);
  compile_ms += us / 1000;
  parts_compiled += stats.new_parts;
  parts_unplanned += stats.unplanned_parts;
  parts_resized += stats.resized_parts;
  parts_ahead += stats.parts_ahead;
  cutting += stats.cutting, unplanned += stats.unplanned, resizing += stats.resizing;
  parts_reused += stats.parts - stats.new_parts - stats.resized_parts - stats.unplanned_parts;
  Compilations& c = compilations_[where];
  add(c.total, us);
  c.fewest_ops = std::min(c.fewest_ops, ops);
  c.most_ops = std::max(c.most_ops, ops);
  c.parts += stats.parts;
  c.new_parts += stats.new_parts;
  c.unplanned_parts += stats.unplanned_parts;
  c.resized_parts += stats.resized_parts;
  c.parts_ahead += stats.parts_ahead;
  for (const jit::Refusal& r : stats.refusals) note({"new plan", r.what, r.where}, 0);
}

std::string Metrics::json() {
  std::lock_guard lock(mutex_);
  MemoryStats memory = memory_stats();
  jit::KernelStats kernels = jit::kernel_stats();
  std::ostringstream o;
  o.precision(12);
  o << "{\"ops_recorded\": " << ops_recorded << ", \"autograd_nodes\": " << autograd_nodes
    << ", \"derivatives_repeated\": " << derivatives_repeated << ", \"traces_compiled\": " << traces_compiled
    << ", \"traces_in_parts\": " << traces_in_parts << ", \"traces_reused\": " << traces_reused
    << ", \"parts_compiled\": " << parts_compiled << ", \"parts_reused\": " << parts_reused
    << ", \"parts_unplanned\": " << parts_unplanned << ", \"parts_resized\": " << parts_resized
    << ", \"parts_ahead\": " << parts_ahead << ", \"ops_cut\": " << cutting.ops << ", \"cut_us\": " << cutting.us
    << ", \"ops_unplanned\": " << unplanned.ops << ", \"unplanned_us\": " << unplanned.us
    << ", \"ops_resized\": " << resizing.ops << ", \"resize_us\": " << resizing.us
    << ", \"kernels_compiled\": " << kernels.compiled - kernels_base_.compiled
    << ", \"kernels_in_bytecode\": " << kernels.bytecode - kernels_base_.bytecode
    << ", \"kernels_loaded\": " << kernels.loaded - kernels_base_.loaded
    << ", \"kernels_reused\": " << kernels.reused - kernels_base_.reused
    << ", \"external_calls\": " << object(external_calls_) << ", \"syncs\": " << object(syncs_)
    << ", \"peeks\": " << peeks << ", \"appends_in_place\": " << appends_in_place
    << ", \"runs_captured\": " << runs_captured << ", \"captured_runs_launched\": " << captured_runs_launched
    << ", \"traces_shadowed\": " << traces_shadowed << ", \"derivatives_shadowed\": " << derivatives_shadowed
    << ", \"shadow_mismatches\": " << shadow_mismatches << ", \"compile_ms\": " << compile_ms
    << ", \"run_ms\": " << run_ms << ", \"bytes_live\": " << memory.allocated_bytes[kAllPools].current
    << ", \"bytes_peak\": " << memory.allocated_bytes[kAllPools].peak
    << ", \"bytes_reserved\": " << memory.reserved_bytes[kAllPools].current
    << ", \"host_seconds\": " << object(host_seconds_by_name()) << "}";
  return o.str();
}

std::string Metrics::explain() {
  const auto kept = kept_history();
  std::lock_guard lock(mutex_);
  for (const auto& [where, c] : compilations_) events_[{"compile", text(c), where}] = c.total;
  compilations_.clear();
  events_.insert(kept.begin(), kept.end());
  return list(std::exchange(events_, {}));
}

std::string Metrics::kept_events() {
  auto all = kept_history();
  std::lock_guard lock(mutex_);
  all.insert(kept_events_.begin(), kept_events_.end());
  return list(all);
}

void Metrics::keep_events(bool keep) {
  std::lock_guard lock(mutex_);
  if (keep) kept_events_.clear();
  keeps_events_ = keep;
}

void Metrics::reset() {
  std::lock_guard lock(mutex_);
  peeks = ops_recorded = appends_in_place = derivatives_repeated = traces_compiled = traces_in_parts = traces_reused =
      parts_compiled = parts_reused = parts_unplanned = parts_resized = parts_ahead = 0;
  runs_captured = captured_runs_launched = 0;
  autograd_nodes = traces_shadowed = derivatives_shadowed = shadow_mismatches = 0;
  compile_ms = run_ms = 0;
  cutting = unplanned = resizing = {};
  external_calls_.clear();
  syncs_.clear();
  reset_host_seconds();
  kernels_base_ = jit::kernel_stats();
}

Metrics& metrics() {
  static auto* m = new Metrics;
  return *m;
}

}  // namespace lazuli::lazy
