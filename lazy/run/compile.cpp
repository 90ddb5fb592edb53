#include "lazy/run/compile.h"

#include <cmath>
#include <limits>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include "jit/kernels/kernel.h"
#include "jit/parts/parts_ahead.h"
#include "lazy/external/external_calls.h"
#include "lazy/memory/backing.h"
#include "lazy/memory/memory.h"
#include "lazy/record/recording.h"
#include "lazy/report/observer.h"
#include "lazy/run/progress.h"
#include "lazy/run/runner.h"
#include "lazy/run/unplanned.h"
#include "lazy/support/config.h"
#include "lazy/support/host_time.h"
#include "lazy/support/source.h"
#include "lazy/trace/freeze.h"

namespace lazuli::lazy {

jit::CompileOptions compile_options(const Settings& settings, uint64_t key) {
  jit::CompileOptions o;
  o.device = &backing().code();
  o.matmul = settings.matmul;
  o.fusion = settings.fusion;
  o.pack = settings.pack;
  o.threads = settings.threads;
  o.other_sizes = settings.other_sizes == "never"    ? jit::OtherSizes::Never
                  : settings.other_sizes == "always" ? jit::OtherSizes::Always
                                                     : jit::OtherSizes::Second;
  if (may_run_unplanned()) o.unplanned = unplanned;
  o.unplanned_always = config().unplanned == "always";
  const std::string& debug = settings.debug;
  if (size_t colon = debug.find(':'); colon != debug.npos) {
    char name[32];
    static int count = 0;
    snprintf(name, sizeof name, "/trace-%03d-%08x", count++, static_cast<unsigned>(key));
    o.dump_stages = debug.substr(0, colon);
    o.dump_folder = debug.substr(colon + 1) + name;
  }
  const std::string& names = settings.disable_passes;
  for (size_t i = 0; i < names.size();) {
    size_t j = std::min(names.find(',', i), names.size());
    if (j > i) o.disabled_passes.push_back(names.substr(i, j - i));
    i = j + 1;
  }
  return o;
}

bool may_run_in_parts() { return config().tiers != "plans" && !at::globalContext().deterministicAlgorithms(); }

bool may_run_unplanned() { return backing().has_host_kernels && may_run_in_parts() && config().unplanned != "never"; }

bool is_dead(const Cell& c, long buffers) {
  return c.references.load(std::memory_order_acquire) == 1 && c.buffer.owner.use_count() == buffers;
}

bool is_read(SyncReason reason) {
  return reason == SyncReason::Read || reason == SyncReason::HostCopy || reason == SyncReason::DataDependent ||
         reason == SyncReason::NewCall;
}

namespace {

// About how many products of two numbers a contraction sums up.
double products_of(const Trace& trace, const Entry& e) {
  const auto type = [&](size_t operand) -> const ir::Type& { return trace.cell(trace.operands(e)[operand])->type; };
  const auto numel = [&](size_t operand) { return static_cast<double>(type(operand).numel()); };
  const auto size = [&](size_t operand, size_t dim) { return static_cast<double>(type(operand).shape[dim]); };
  const ir::Type& result = trace.cell(e.first_result)->type;
  const auto per_channel = [](const ir::Type& weight) {
    return static_cast<double>(weight.numel()) / std::max<double>(1, static_cast<double>(weight.shape[0]));
  };
  switch (e.op) {
    case ir::Op::attention:
      return 2 * numel(0) * size(1, 1);
    case ir::Op::lstm_layer:
    case ir::Op::gru_layer:
      return numel(0) * size(1, 1);
    case ir::Op::attention_backward:
      return 5 * numel(1) * size(2, 1);
    case ir::Op::convolution:
      return static_cast<double>(result.numel()) * per_channel(type(1));
    case ir::Op::convolution_input_grad:
      return numel(0) * per_channel(type(1));
    case ir::Op::convolution_weight_grad:
      return numel(0) * per_channel(result);
    default:
      return static_cast<double>(result.numel()) * static_cast<double>(type(0).shape.back());
  }
}

// The inputs whose memory results should take over: those that are dead this time, as they will be when the same trace
// comes again. A run in which one is not copies it first.
std::vector<bool> donated_inputs(const Trace& trace) {
  Runner::get().drain();  // earlier traces hold their values until they have run
  std::vector<bool> donated;
  for (ValueId v : trace.inputs()) donated.push_back(is_dead(*trace.cell(v), 1));
  return donated;
}

// What a trace's products and convolutions take, about.
double computing_us(const Trace& trace) {
  constexpr double kFlopsPerUs = 60'000;  // on a core
  double us = 0;
  for (const Entry& e : trace.entries())
    if (ir::is_contraction(e.op)) us += products_of(trace, e) * 2 / kFlopsPerUs / at::get_num_threads();
  return us;
}

// How often a trace should run in parts at most: until planning it whole costs next to nothing beside what it will have
// computed by then. Parts serve steps that never come again; of products and convolutions a whole plan makes more.
int64_t most_runs_in_parts(const Trace& trace) {
  constexpr double kPlanningUs = 25;  // an op
  constexpr double kNextToNothing = 0.05;
  const auto ops = std::ranges::count_if(trace.entries(), [](const Entry& e) { return !ir::is_leaf(e.op); });
  const double runs = std::floor(kPlanningUs * static_cast<double>(ops) / (kNextToNothing * computing_us(trace)));
  return runs < 1e6 ? static_cast<int64_t>(runs) : std::numeric_limits<int64_t>::max();
}

constexpr int64_t kLoopsWait = 16;
constexpr int64_t kSoon = 8;                    // runs in parts before a plan, which its parts need not have then
constexpr int64_t kWorthGivingBack = 32 << 20;  // bytes that a trace computes, for whose run memory is given back
constexpr size_t kWorthTrimming = 8 << 20;      // bytes that nobody uses in the heap
constexpr double kLongUs = 1000;                // beside which what it costs to end a trace is next to nothing

// Whether a trace runs in parts once more.
bool runs_in_parts_now(const TraceCache::RunsInParts& runs) {
  if (!may_run_in_parts()) return false;
  if (config().tiers == "parts") return true;
  if (!runs.cut || !config().debug.empty()) return false;  // whole traces are what is to be read
  // How many turns a loop takes may well change, and a plan of them all gains least.
  return runs.count < std::min(runs.most, config().plan_after * (runs.loop ? kLoopsWait : 1));
}

// Of a trace that is the `new_ones`-th new one in a row.
TraceCache::RunsInParts first_runs(const Trace& trace, int64_t new_ones) {
  TraceCache::RunsInParts runs;
  runs.most = backing().overlaps_host ? std::numeric_limits<int64_t>::max() : most_runs_in_parts(trace);
  runs.cut = new_ones > backing().planned_before_parts;
  return runs;
}

// "a trace of 812 operations that ends at train.py:41"
std::string description(const Trace& trace) {
  const std::string line = line_text(current_line());
  return "a trace of " + std::to_string(trace.size()) + " operations" + (line.empty() ? "" : " that ends at " + line);
}

Novelty why_new(const Trace& trace, uint64_t key) {
  Novelty d = NewTraces::get().look(trace, key);
  if (d.kind != Novelty::Kind::First)
    metrics().noticed("new trace", std::string(name(d.kind)) + ": " + d.what, line_text(d.line));
  return d;
}

}  // namespace

bool runs_whole(uint64_t key, const Settings& settings, const Trace& trace, const std::vector<ValueId>& live) {
  TraceCache& cache = TraceCache::get();
  if (cache.find(key, settings, trace, live)) return true;
  const TraceCache::RunsInParts* before = cache.runs_before(key);
  return !runs_in_parts_now(before ? *before : first_runs(trace, cache.novelty.if_new(trace.size())));
}

KnownRef compile(uint64_t key, const Settings& settings, const Trace& trace, std::vector<ValueId> live,
                 SyncReason reason, jit::PartsAhead* ahead) {
  RECORD_FUNCTION("lazuli::compile", {});
  HostTimer timer(HostAccount::Compiling);
  double start = now_us();
  TraceCache& cache = TraceCache::get();
  auto known = std::make_shared<KnownTrace>();
  known->key = key;
  known->settings = settings;
  known->live = std::move(live);
  bool in_parts = false, may_come_again = false;
  if (!known->live.empty()) {
    TraceCache::RunsInParts& runs = cache.runs_of(key);
    const bool is_new = runs.count == 0;
    if (is_new) runs = first_runs(trace, cache.novelty.is_new(trace.size()));
    const Novelty novelty = is_new ? why_new(trace, key) : Novelty();
    const bool cuts = runs_in_parts_now(runs), is_used = ahead && ahead->runs() > 0;
    const bool is_large = trace.pending_bytes() >= kWorthGivingBack;
    if (cuts && is_large && cache.is_heap_new()) give_back_host_memory();
    if (cuts && runs.count > 0 && !is_used && config().unplanned != "always")
      if (KnownRef recent = cache.find_recent(key, settings, trace, known->live)) {
        ++runs.count;
        ++metrics().traces_reused;
        return recent;
      }
    const bool may_donate = !(is_read(reason) && backing().overlaps_host);  // run_aside does not
    std::vector<bool> donated = may_donate ? donated_inputs(trace) : std::vector<bool>();
    jit::CompileOptions options = compile_options(settings, key);
    const int64_t left = std::min(runs.most, config().plan_after) - runs.count;  // runs in parts
    options.planned_soon = runs.count > 0 && left <= kSoon && !runs.loop && config().tiers != "parts";
    cache.parts.set_limit(static_cast<size_t>(config().max_traces));
    jit::keep_kernels(2 * static_cast<size_t>(config().max_traces));
    if (cuts)
      known->executable = cache.parts.compile(trace.listing(), known->live, donated, options, line_text, ahead);
    else if (options.unplanned && options.dump_folder.empty() && (runs.count == 0 || options.unplanned_always))
      known->executable = cache.parts.compile_if_new(trace.listing(), known->live, donated, options, line_text);
    in_parts = known->executable != nullptr;
    if (!in_parts) {
      const Progress progress(description(trace));
      known->executable = jit::compile(freeze(trace, known->live, std::move(donated)), options);
      // Parts had other sizes, torch's kernels left holes in the heap, and LLVM its own: none of it serves the plan.
      if (is_large || unused_heap_bytes() >= kWorthTrimming) give_back_host_memory();
      if (is_large) cache.large_runs_in_parts = 0;
    }
    ++runs.count;
    const jit::CompileStats& stats = known->executable->stats();
    may_come_again =
        in_parts && runs.count > 1 && stats.parts_ahead == 0 && (stats.unplanned_parts == 0 || options.planned_soon);
    runs.loop = 2 * stats.turns > stats.parts;
    const uint32_t line = current_line();
    metrics().compiled(trace.size(), stats, line_text(line), now_us() - start);
    if (Observer* o = Observer::if_on()) o->compiled(key, novelty, is_new, stats, line, start, now_us());
  }
  if (in_parts) {
    if (external_call_count() > static_cast<size_t>(config().max_traces) * 4) cache.forget_external_calls(trace);
    known->code.lines = trace.lines;
    if (may_come_again) cache.add_recent(key, known, trace);
    return known;
  }
  known->code = trace.without_cells();
  known->is_long = !backing().overlaps_host && computing_us(trace) >= kLongUs;
  if (reason == SyncReason::Repeat) known->loop = recorder().repetition;
  cache.forget_runs_of(key);
  return cache.add(key, std::move(known));  // without an executable, only so that it is recognized next time
}

}  // namespace lazuli::lazy
