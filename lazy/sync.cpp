#include "lazy/sync.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <c10/core/StreamGuard.h>
#include <chrono>
#include <cmath>
#include <functional>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include "ir/print.h"
#include "jit/kernel.h"
#include "jit/part_cache.h"
#include "ir/error.h"
#include "lazy/backing.h"
#include "lazy/config.h"
#include "lazy/external.h"
#include "lazy/external_signature.h"
#include "lazy/freeze.h"
#include "lazy/memory.h"
#include "lazy/recording.h"
#include "lazy/runner.h"
#include "lazy/shadow.h"
#include "lazy/source.h"
#include "lazy/torch_buffers.h"
#include "lazy/torch_host.h"
#include "lazy/workers.h"

namespace lazuli::lazy {
namespace {

double now_us() {
  using namespace std::chrono;
  return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}

// What decides beside a trace how it is compiled: under other settings it is a new one.
struct Settings {
  lowering::GpuMatmulSettings matmul;
  bool fusion, pack;
  std::string disable_passes, debug, other_sizes;
  friend bool operator==(const Settings&, const Settings&) = default;
};

// A trace seen before: what its code is, what of it was alive, and what runs it.
struct KnownTrace {
  Settings settings;
  Trace code{0};  // without cells
  std::vector<ValueId> live;
  std::unique_ptr<jit::Executable> executable;  // null when nothing was alive
  KnownTrace* successor = nullptr;  // the trace that came next, the last time
  std::optional<Repetition> loop;  // which the trace's end cut
  uint64_t used = 0;  // when it ran last, by the cache's clock
};
using KnownRef = std::shared_ptr<KnownTrace>;  // a job or an outer sync may run what the cache has forgotten

struct Cache {
  std::unordered_multimap<uint64_t, KnownRef> traces;
  jit::PartCache parts;
  struct RunsInParts {
    int64_t count = 0;
    bool loop = false;  // most of it are turns of a loop
  };
  std::unordered_map<uint64_t, RunsInParts> runs_in_parts;  // of traces that are not known yet, by their key
  uint64_t clock = 0;
  KnownTrace* previous = nullptr;
  // The known trace that the current one is expected to repeat, while it does as far as hashes tell: they say what lines ops
  // have and where a loop is cut, and nothing that results depend on.
  KnownTrace* expected = nullptr;
  bool learning = true;

  KnownRef find(uint64_t key, const Settings& settings, const Trace& trace, const std::vector<ValueId>& live) {
    auto [begin, end] = traces.equal_range(key);
    for (auto it = begin; it != end; ++it)
      if (it->second->live == live && it->second->settings == settings && it->second->code.same_code(trace)) {
        it->second->used = ++clock;
        return it->second;
      }
    return nullptr;
  }
  KnownRef add(uint64_t key, KnownRef known) {
    if (traces.size() >= static_cast<size_t>(config().max_traces)) forget(known->code);
    known->used = ++clock;
    return traces.emplace(key, std::move(known))->second;
  }

  // How often a trace has run in parts. It only says when to plan it whole, so that a hash will do.
  RunsInParts& runs_of(uint64_t key) {
    if (runs_in_parts.size() >= static_cast<size_t>(config().max_traces) * 64) runs_in_parts.clear();
    return runs_in_parts[key];
  }

  // But those of known traces and parts, of `trace`, and of what is being recorded.
  void forget_external_calls(const Trace& trace) {
    std::unordered_set<int64_t> calls;
    trace.find_external_calls(calls);
    recorder().trace.find_external_calls(calls);
    for (const auto& [key, known] : traces) known->code.find_external_calls(calls);
    parts.find_external_calls(calls);
    keep_external_calls(calls);
  }

 private:
  // Lets go of what was not used for longest, down to three quarters of the bound, and of the external calls that nothing
  // else makes: neither `added` nor what is being recorded.
  void forget(const Trace& added) {
    std::vector<uint64_t> times;
    for (const auto& [key, known] : traces) times.push_back(known->used);
    const auto kept = static_cast<ptrdiff_t>(config().max_traces * 3 / 4);
    const auto last_old = times.end() - kept - 1;
    std::ranges::nth_element(times, last_old);
    auto is_old = [&](const KnownTrace* k) { return k && k->used <= *last_old; };
    for (auto& [key, known] : traces)
      if (is_old(known->successor)) known->successor = nullptr;
    if (is_old(expected)) expected = nullptr, learning = true;
    if (is_old(previous)) previous = nullptr;
    std::erase_if(traces, [&](const auto& entry) { return is_old(entry.second.get()); });
    forget_external_calls(added);
  }
};
Cache& cache() {
  static auto* c = new Cache;
  return *c;
}

// What torch's settings say about products.
lowering::GpuMatmulSettings matmul_settings() {
  lowering::GpuMatmulSettings s;
  if (!backing().is_gpu()) return s;
  const at::Context& torch = at::globalContext();
  const auto allowed = at::CuBLASReductionOption::AllowReducedPrecisionWithSplitK;
  s.tf32 = torch.allowTF32CuBLAS();
  s.bf16_reduced_precision_reduction = torch.allowBF16ReductionCuBLAS() == allowed;
  s.f16_reduced_precision_reduction = torch.allowFP16ReductionCuBLAS() == allowed;
  return s;
}
uint64_t bits_of(const lowering::GpuMatmulSettings& s) {
  return uint64_t{s.tf32} | uint64_t{s.bf16_reduced_precision_reduction} << 1 | uint64_t{s.f16_reduced_precision_reduction} << 2;
}

Settings settings_now() {
  const Config& c = config();
  return {matmul_settings(), c.fusion, c.max_packed_bytes > 0, c.disable_passes, c.debug, c.other_sizes};
}
uint64_t hash_of(const Settings& s) {
  const std::hash<std::string> hash;
  return mix(mix(hash(s.disable_passes), mix(hash(s.debug), hash(s.other_sizes))),
             bits_of(s.matmul) << 2 | uint64_t{s.fusion} | uint64_t{s.pack} << 1);
}

// `live`: the values that somebody can read when the trace ends.
uint64_t key_of(const Settings& settings, const Trace& trace, const std::vector<ValueId>& live) {
  uint64_t key = mix(trace.hash(), hash_of(settings));
  for (ValueId v : live) key = mix(key, v);
  return for_lookup(key);
}

jit::CompileOptions compile_options(const Settings& settings, uint64_t key) {
  jit::CompileOptions o;
  o.device = &backing().code();
  o.matmul = settings.matmul;
  o.fusion = settings.fusion;
  o.pack = settings.pack;
  o.other_sizes = settings.other_sizes == "never"    ? jit::OtherSizes::Never
                  : settings.other_sizes == "always" ? jit::OtherSizes::Always
                                                     : jit::OtherSizes::Second;
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

// About how many products of two numbers a contraction sums up: of the sizes of its operands and its result, each is in two.
double products_of(const Trace& trace, const Entry& e) {
  double sizes = static_cast<double>(trace.cell(e.first_result)->type.numel());
  for (ValueId v : trace.operands(e))
    if (v != kAbsent) sizes *= static_cast<double>(trace.cell(v)->type.numel());
  return std::sqrt(sizes);
}

// Whether nobody but the trace can read the value any more. `buffers`: how many hold its buffer if so.
bool is_dead(const Cell& c, long buffers) {
  return c.references.load(std::memory_order_acquire) == 1 && c.buffer.owner.use_count() == buffers;
}

// The inputs whose memory results should take over: those that are dead this time, as they will be when the same trace
// comes again. A run in which one is not copies it first.
std::vector<bool> donated_inputs(const Trace& trace) {
  Runner::get().drain();  // earlier traces hold their values until they have run
  std::vector<bool> donated;
  for (ValueId v : trace.inputs()) donated.push_back(is_dead(*trace.cell(v), 1));
  return donated;
}

bool is_read(SyncReason reason) {
  return reason == SyncReason::Read || reason == SyncReason::HostCopy || reason == SyncReason::DataDependent;
}

// Whether a trace that was never there before should be cut into parts: not where planning it whole costs next to nothing
// beside what it computes.
bool is_worth_cutting(const Trace& trace) {
  if (backing().is_gpu() || config().tiers == "plans") return false;
  if (config().tiers == "parts") return true;
  if (!config().debug.empty()) return false;  // whole traces are what is to be read
  constexpr double kPlanningUs = 25;             // an op
  constexpr double kFlopsPerUs = 60'000;         // of products and convolutions on a core
  constexpr double kNextToNothing = 0.05;
  double planning = 0, computing = 0;
  for (const Entry& e : trace.entries()) {
    if (ir::is_leaf(e.op)) continue;
    planning += kPlanningUs;
    if (ir::is_contraction(e.op)) computing += products_of(trace, e) * 2 / kFlopsPerUs / at::get_num_threads();
  }
  return planning > kNextToNothing * computing;
}

constexpr int64_t kLoopsWait = 16;

// Compiles a trace that is not known. One that runs in parts is remembered when it has come often enough to be planned whole.
KnownRef compile(uint64_t key, const Settings& settings, const Trace& trace, std::vector<ValueId> live,
                 SyncReason reason) {
  RECORD_FUNCTION("lazuli::compile", {});
  HostTimer timer(HostAccount::Compiling);
  double start = now_us();
  auto known = std::make_shared<KnownTrace>();
  known->settings = settings;
  known->live = std::move(live);
  bool in_parts = false;
  if (!known->live.empty()) {
    const bool may_donate = !(is_read(reason) && backing().is_gpu());  // run_aside does not
    std::vector<bool> donated = may_donate ? donated_inputs(trace) : std::vector<bool>();
    const jit::CompileOptions options = compile_options(settings, key);
    cache().parts.set_limit(static_cast<size_t>(config().max_traces));
    Cache::RunsInParts& runs = cache().runs_of(key);
    // How many turns a loop takes may well change, and a plan of them all gains least.
    const int64_t most = config().plan_after * (runs.loop ? kLoopsWait : 1);
    in_parts = is_worth_cutting(trace) && (runs.count++ < most || config().tiers == "parts");
    known->executable = in_parts ? cache().parts.compile(trace.listing(), known->live, donated, options, line_text)
                                 : jit::compile(freeze(trace, known->live, std::move(donated)), options);
    const jit::CompileStats& stats = known->executable->stats();
    runs.loop = 2 * stats.turns > stats.parts;
    metrics().compiled(trace.size(), stats, line_text(current_line()), now_us() - start);
  }
  if (in_parts) {
    if (external_call_count() > static_cast<size_t>(config().max_traces) * 4) cache().forget_external_calls(trace);
    known->code.lines = trace.lines;
    return known;
  }
  known->code = trace.without_cells();
  if (reason == SyncReason::Repeat) known->loop = recorder().repetition;
  cache().runs_in_parts.erase(key);
  return cache().add(key, std::move(known));  // without an executable, only so that it is recognized next time
}

// A value that an earlier trace failed to compute fails whatever is computed from it, with the same words.
void check_inputs(const Trace& trace) {
  for (ValueId v : trace.inputs())
    if (const Cell* c = trace.cell(v); c->state == Cell::State::Failed) c->failure->raise();
}

// `may_donate`: dead inputs may be written over.
void run(const KnownTrace& known, const Trace& trace, bool may_donate = true) {
  RECORD_FUNCTION("lazuli::run", {});
  HostTimer timer(HostAccount::Running);
  check_inputs(trace);
  size_t n = trace.inputs().size();
  std::vector<jit::Buffer> inputs(n), outputs(known.live.size());
  auto donate = std::make_unique<bool[]>(n);
  for (size_t i = 0; i < n; ++i) {
    Cell* c = trace.cell(trace.inputs()[i]);
    inputs[i] = c->buffer;
    donate[i] = may_donate && is_dead(*c, 2);  // the cell and this list hold the buffer
  }
  std::unique_ptr<Shadow> shadow;
  if (Shadow::is_due()) [[unlikely]]
    shadow = std::make_unique<Shadow>(trace, known.code.lines, known.live, inputs, std::span<const bool>(donate.get(), n));
  // Dead inputs give their buffers away, so that an executable may reuse or free them early.
  for (size_t i = 0; i < n; ++i)
    if (donate[i]) trace.cell(trace.inputs()[i])->buffer = {};
  TorchHost host;
  Workers workers;
  double start = now_us();
  std::exception_ptr failed;
  try {
    known.executable->run(host, inputs, {donate.get(), n}, trace.scalars(), outputs);
  } catch (const jit::PartialFailure&) {
    failed = std::current_exception();
  }
  metrics().ran(now_us() - start);
  if (shadow) shadow->check(outputs, [&] { return compile_options(known.settings, 0); });
  for (size_t i = 0; i < known.live.size(); ++i) trace.cell(known.live[i])->buffer = std::move(outputs[i]);
  if (failed) std::rethrow_exception(failed);
}

std::shared_ptr<const Failure> fail(const Trace& trace, std::span<const ValueId> live, Failure why) {
  auto failure = std::make_shared<const Failure>(std::move(why));
  for (ValueId v : live) {
    trace.cell(v)->failure = failure;
    trace.cell(v)->state = Cell::State::Failed;
  }
  return failure;
}

Failure failure_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return Failure::of(e);
  }
}

// Calls `what`, and if it throws fails the values that could not be computed and throws a torch error.
template <class F>
void or_fail(const Trace& trace, const std::vector<ValueId>& live, F what) {
  try {
    what();
  } catch (const jit::PartialFailure& e) {
    for (size_t i = 0; i < live.size(); ++i)
      if (e.outputs[i]) fail(trace, {&live[i], 1}, failure_of(e.outputs[i]));
    failure_of(e.first).raise();
  } catch (const c10::Error& e) {
    fail(trace, live, Failure::of(e));
    throw;
  } catch (const std::exception& e) {
    fail(trace, live, Failure::of(e))->raise();
  }
}

// `completed`: the Runner's.
bool is_filled(const Cell& c, uint64_t completed) { return c.job != Cell::kUnknownJob && c.job <= completed; }
bool are_filled(const Trace& trace) {
  const uint64_t completed = Runner::get().completed();
  return std::ranges::all_of(trace.inputs(), [&](ValueId v) { return is_filled(*trace.cell(v), completed); });
}

// From this thread, and done when it returns. Nothing is donated: work that waits in another stream may still read an
// input that nobody else holds.
void run_here(const KnownTrace& known, const Trace& trace, std::optional<c10::Stream> stream) {
  c10::OptionalStreamGuard guard(stream);
  run(known, trace, /*may_donate=*/false);
  backing().wait();
}

// A trace that ends because somebody wants to read, and depends on nothing that the GPU still has to compute, need not
// queue up behind the previous step: it runs on a stream of its own.
bool run_aside(SyncReason reason, const KnownTrace& known, const Trace& trace) {
  const auto side = is_read(reason) ? backing().side_stream() : std::nullopt;
  if (!side || !are_filled(trace)) return false;
  run_here(known, trace, side);
  for (ValueId v : known.live) trace.cell(v)->job = 0;
  return true;
}

// While the trace goes the way of a known one, its lines are that one's: those of its first `count` ops.
void take_known_lines(Trace& trace, size_t count) {
  const Cache& c = cache();
  if (c.learning) return;
  const auto& known = c.expected->code.lines;
  trace.lines.assign(known.begin(), known.begin() + static_cast<ptrdiff_t>(std::min(count, known.size())));
}

// Whether it costs next to nothing to compute a slice of the trace here, and with the trace once more.
bool is_small(const Trace& slice) {
  constexpr int64_t kMostBytes = 1 << 20, kMostInputBytes = 16 << 20;
  int64_t input_bytes = 0;
  for (ValueId v : slice.inputs()) input_bytes += slice.cell(v)->type.bytes();
  return slice.pending_bytes() <= kMostBytes && input_bytes <= kMostInputBytes &&
         std::ranges::none_of(slice.entries(), [](const Entry& e) {
           const ir::Kind kind = ir::info(e.op).kind;
           return kind == ir::Kind::External || kind == ir::Kind::Contraction;
         });
}

// The value of a pending cell where it can be had without ending the trace: on a GPU, that would wait for all that is
// queued there, though the value may depend on none of it.
std::optional<jit::Buffer> peek(SyncReason reason, const Cell& wanted) {
  constexpr size_t kMostOps = 64;
  constexpr int kMostPeeks = 4;  // a loop that reads what it goes on computing from ends the trace now and then
  Trace& trace = recorder().trace;
  const auto side = backing().side_stream();
  const bool wished = config().peek == "always" || (config().peek == "gpu" && side);
  if (!wished || !(reason == SyncReason::Read || reason == SyncReason::HostCopy) || trace.peeks >= kMostPeeks) return {};
  take_known_lines(trace, trace.size());
  auto found = trace.slice(wanted.id, kMostOps);
  if (!found || !is_small(found->first) || trace.live().size() < 2) return {};
  const Trace& slice = found->first;
  const std::vector<ValueId> live{found->second};
  if (backing().is_gpu() && !are_filled(slice)) return {};

  RECORD_FUNCTION("lazuli::peek", {});
  HostTimer timer(HostAccount::Ending);
  const double start = now_us();
  ++trace.peeks;
  const Settings settings = settings_now();
  const uint64_t key = key_of(settings, slice, live);
  KnownRef known = cache().find(key, settings, slice, live);
  try {
    if (known)
      ++metrics().traces_reused;
    else
      known = compile(key, settings, slice, live, reason);
    run_here(*known, slice, side);
  } catch (const std::exception&) {
    return {};  // the trace itself will fail, and so its values
  }
  raise_shadow_mismatch();
  metrics().peek(std::to_string(slice.size()) + " ops", config().source_lines ? line_text(current_line()) : "", now_us() - start);
  return slice.cell(live[0])->buffer;
}

// Traces that have run, for their memory.
class SpareTraces {
 public:
  static SpareTraces& get() {
    static auto* s = new SpareTraces;
    return *s;
  }
  Trace take(uint64_t epoch) {
    std::lock_guard lock(mutex_);
    if (spare_.empty()) return Trace(epoch);
    Trace t = std::move(spare_.back());
    spare_.pop_back();
    t.restart(epoch);
    return t;
  }
  void give(Trace t) {
    t.restart(0);  // lets go of the values
    std::lock_guard lock(mutex_);
    if (spare_.size() < kMost) spare_.push_back(std::move(t));
  }

 private:
  static constexpr size_t kMost = 4;
  Mutex mutex_{Rank::Leaf};
  std::vector<Trace> spare_;
};

void predict(KnownTrace* done) {
  Cache& c = cache();
  if (c.previous) c.previous->successor = done;
  c.previous = done;
  c.expected = done ? done->successor : nullptr;
  c.learning = c.expected == nullptr;
}

// Whether the trace should end because it repeats itself. One that goes the way of a known trace need not be looked at.
bool repeats(Recorder& r) {
  const KnownTrace* known = cache().expected;
  const size_t n = r.trace.size();
  if (known && !r.repetition.in_loop() && n <= known->code.size() &&
      known->code.prefix_hashes[n - 1] == r.trace.prefix_hashes[n - 1]) {
    r.repetition.wait_until(known->code.size());
    if (n < known->code.size()) return false;
    if (known->loop) return r.repetition = *known->loop, true;
  }
  return r.repetition.look(r.trace);
}

}  // namespace

void sync(SyncReason reason) {
  Recorder& r = recorder();
  std::lock_guard lock(r.mutex);
  settle_after_fork();
  if (r.trace.empty()) return;
  RECORD_FUNCTION(std::string("lazuli::sync: ") + name(reason), {});
  HostTimer timer(HostAccount::Ending);
  if (reason != SyncReason::Repeat) r.repetition.restart();
  r.trace.settle_segments();
  auto trace = std::make_shared<Trace>(std::move(r.trace));
  r.trace = SpareTraces::get().take(r.next_epoch++);
  std::vector<ValueId> live = trace->live();
  double start = now_us();
  const Settings settings = settings_now();
  const uint64_t key = key_of(settings, *trace, live);
  KnownRef known = cache().find(key, settings, *trace, live);
  // From here on somebody else computes them.
  for (ValueId v : live) {
    trace->cell(v)->state = Cell::State::Ready;
    trace->cell(v)->epoch = 0;
  }
  try {
    or_fail(*trace, live, [&] {
      if (!known) {
        take_known_lines(*trace, trace->size());
        known = compile(key, settings, *trace, live, reason);
      } else if (!live.empty()) {
        ++metrics().traces_reused;
      }
    });
    bool done = live.empty();
    if (!done) or_fail(*trace, live, [&] { done = run_aside(reason, *known, *trace); });
    if (done) raise_shadow_mismatch();
    if (!done) {
      for (ValueId v : live) trace->cell(v)->job = Runner::get().next();
      Runner::get().submit([known, trace] {
        or_fail(*trace, known->live, [&] { run(*known, *trace); });
        SpareTraces::get().give(std::move(*trace));
        raise_shadow_mismatch();
      });
    }
  } catch (...) {
    predict(nullptr);
    throw;
  }
  predict(known->code.empty() ? nullptr : known.get());
  metrics().sync(reason, config().source_lines ? line_text(current_line()) : "", now_us() - start);
}

void finish() {
  sync(SyncReason::Explicit);
  Runner::get().wait();
  backing().wait();
}

jit::Buffer materialize(const at::Tensor& t, SyncReason reason, bool writable) {
  return materialize(storage_of(t), reason, writable);
}

jit::Buffer materialize(LazyStorage& s, SyncReason reason, bool writable) {
  std::lock_guard lock(recorder().mutex);
  settle_after_fork();
  if (s.cell()->state == Cell::State::Pending) {
    if (!writable)
      if (auto apart = peek(reason, *s.cell())) return *std::move(apart);
    sync(reason);
  }
  if (writable || !is_filled(*s.cell(), Runner::get().completed())) Runner::get().wait();
  Cell* c = s.cell();
  if (c->state == Cell::State::Failed) c->failure->raise();
  if (c->state == Cell::State::Uninitialized) {
    s.rebind(make_ready(allocate_buffer(s.nbytes()), c->type));
    c = s.cell();
  }
  LAZULI_CHECK(c->state == Cell::State::Ready, "a sync left a live value without a buffer");
  if (writable && (c->references.load() > 1 || c->buffer.owner.use_count() > 1)) {
    jit::Buffer copy = allocate_buffer(c->buffer.bytes);
    backing().copy(copy.data, c->buffer.data, c->buffer.bytes);
    s.rebind(make_ready(std::move(copy), c->type));
    c = s.cell();
  }
  if (writable) {
    s.close_lent();
    if (jit::PackedOperands* packed = packed_operands()) packed->written(c->buffer);
  }
  return c->buffer;
}

at::Tensor host_view(const at::Tensor& t, const jit::Buffer& memory) {
  auto* data = static_cast<char*>(memory.data) + t.storage_offset() * static_cast<int64_t>(t.itemsize());
  at::Tensor view = tensor_over(data, t.sizes(), t.strides(), t.scalar_type(), memory.owner);
  set_view_bits(view, geometry_of(t));
  return view;
}

at::Tensor host_view(const at::Tensor& t, SyncReason reason, bool writable) { return host_view(t, materialize(t, reason, writable)); }

std::optional<c10::Stream> stream_to_read(const at::Tensor& t) {
  std::lock_guard lock(recorder().mutex);
  const Cell* c = storage_of(t).cell();
  const bool peeked = c->state == Cell::State::Pending;
  if (!peeked && (c->state != Cell::State::Ready || !is_filled(*c, Runner::get().completed()))) return {};
  return backing().side_stream();
}

std::string pending_text() {
  Recorder& r = recorder();
  std::lock_guard lock(r.mutex);
  take_known_lines(r.trace, r.trace.size());
  return ir::print(freeze(r.trace, r.trace.live()));
}

void cut_if_due() {
  Recorder& r = recorder();
  const Config& c = config();
  const int64_t limit = c.max_pending_bytes ? c.max_pending_bytes : backing().pending_limit();
  const int64_t bytes = r.trace.pending_bytes();
  if ((r.trace.size() >= r.repetition.due() || bytes >= limit) && c.cut_at_repeat && repeats(r))
    return sync(SyncReason::Repeat);
  // A loop that has just been found may come to the end of its iteration.
  const int64_t more = r.repetition.in_loop() ? limit / 2 : 0;
  if (static_cast<int64_t>(r.trace.size()) >= c.max_pending_ops || bytes >= limit + more) sync(SyncReason::Bound);
}

bool needs_lines() {
  Cache& c = cache();
  if (!config().source_lines) return false;
  Trace& trace = recorder().trace;
  size_t n = trace.size();
  if (!c.learning) {
    const auto& known = c.expected->code;
    if (n <= known.prefix_hashes.size() && known.prefix_hashes[n - 1] == trace.prefix_hashes[n - 1]) return false;
    // It left the known path here: what went before has that path's lines.
    take_known_lines(trace, n - 1);
    c.learning = true;
  }
  return true;
}

}  // namespace lazuli::lazy
