#include "lazy/run/sync.h"

#include <optional>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <c10/core/StreamGuard.h>
#include "ir/error.h"
#include "ir/print.h"
#include "jit/device.h"
#include "lazy/external/external.h"
#include "lazy/external/external_signature.h"
#include "lazy/external/workers.h"
#include "lazy/memory/backing.h"
#include "lazy/memory/capture_pool.h"
#include "lazy/memory/memory.h"
#include "lazy/memory/torch_buffers.h"
#include "lazy/record/recording.h"
#include "lazy/report/observer.h"
#include "lazy/rows/torch_host.h"
#include "lazy/run/compile.h"
#include "lazy/run/kept_images.h"
#include "lazy/run/reads.h"
#include "lazy/run/run_ahead.h"
#include "lazy/run/runner.h"
#include "lazy/shadow/shadow.h"
#include "lazy/support/config.h"
#include "lazy/support/source.h"
#include "lazy/trace/freeze.h"

namespace lazuli::lazy {
namespace {

// A value that an earlier trace failed to compute fails whatever is computed from it, with the same words.
void check_inputs(const Trace& trace) {
  for (ValueId v : trace.inputs())
    if (const Cell* c = trace.cell(v); c->state == Cell::State::Failed) c->failure->raise();
}

void wait_for_runner() {
  if (Runner::get().is_idle()) return Runner::get().wait();
  HostTimer timer(HostAccount::Waiting);
  Runner::get().wait();
}

// The Python line that is executing, if lines are looked for.
uint32_t line_here() { return config().source_lines ? current_line() : 0; }

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
  if (Shadow::is_due()) [[unlikely]] {
    std::ranges::for_each(inputs, bring_back);
    shadow =
        std::make_unique<Shadow>(trace, known.code.lines, known.live, inputs, std::span<const bool>(donate.get(), n));
  }
  // Dead inputs give their buffers away, so that an executable may reuse or free them early.
  for (size_t i = 0; i < n; ++i)
    if (donate[i]) trace.cell(trace.inputs()[i])->buffer = {};
  TorchHost host;
  if (backing().overlaps_host && known.executable->stats().parts == 0)
    host.captures = Runner::is_running() ? &CapturePool::of_runner() : &CapturePool::of_readers();
  Workers workers;
  Observer::Run observed(Observer::if_on(), known.key, trace);
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
  observed.made(trace, known.code.lines, known.live);
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

// Of the live values, what nobody reads takes so much.
int64_t unread_bytes(const Trace& trace, std::span<const ValueId> live) {
  int64_t bytes = 0;
  for (ValueId v : live)
    if (const Cell* c = trace.cell(v); c->references.load(std::memory_order_acquire) == 1)
      bytes += std::max<int64_t>(c->type.bytes(), 1);
  return bytes;
}

// Whether a trace has come to hold much that nobody reads, which eager would have freed at once. It is asked each time
// that twice as much is pending.
class UnreadBound {
 public:
  bool is_reached(const Trace& trace) {
    constexpr int64_t kMost = int64_t{64} << 20;
    if (epoch_ != trace.epoch()) epoch_ = trace.epoch(), due_ = kMost;
    if (trace.pending_bytes() < due_) return false;
    due_ = 2 * trace.pending_bytes();
    return unread_bytes(trace, trace.live()) >= kMost;
  }

 private:
  uint64_t epoch_ = 0;
  int64_t due_ = 0;
};

// What could not be raised where it was found (materialize_alone). Under the recorder's lock.
std::exception_ptr& kept_error() {
  static std::exception_ptr e;
  return e;
}
void raise_kept_error() {
  if (std::exception_ptr e = std::exchange(kept_error(), nullptr)) std::rethrow_exception(e);
}

// What a peek computes at most.
constexpr size_t kMostPeekedOps = 64;

// After a peek: whether the pending trace should end too. A loop that reads in each step leaves much pending, which
// need not wait for more. And one that reads what it goes on computing from computes it again for each peek.
bool has_much_beside_peeks(const Trace& trace) {
  constexpr int kMostPeeks = 4;
  return trace.peeks >= kMostPeeks || trace.size() > 2 * kMostPeekedOps;
}

// The value of a pending cell where it can be had without ending the trace: on a GPU, that would wait for all that is
// queued there, though the value may depend on none of it.
std::optional<jit::Buffer> peek(SyncReason reason, const Cell& wanted) {
  Trace& trace = recorder().trace;
  const auto side = backing().side_stream();
  const bool wished = config().peek == "always" || (config().peek == "gpu" && side);
  if (!wished || !(reason == SyncReason::Read || reason == SyncReason::HostCopy)) return {};
  TraceCache::get().take_known_lines(trace, trace.size());
  auto found = trace.slice(wanted.id, kMostPeekedOps);
  if (!found || !is_small(found->first)) return {};
  // The errors of what nobody reads come with the next read.
  if (const auto live = trace.live(); live.size() < 2 || unread_bytes(trace, live) > 0) return {};
  const Trace& slice = found->first;
  const std::vector<ValueId> live{found->second};
  if (backing().overlaps_host && !are_filled(slice)) return {};

  RECORD_FUNCTION("lazuli::peek", {});
  const RunAhead::Halt halt;
  HostTimer timer(HostAccount::Ending);
  const double start = now_us();
  ++trace.peeks;
  const Settings settings = settings_now();
  const uint64_t key = key_of(settings, slice, live);
  KnownRef known = TraceCache::get().find(key, settings, slice, live);
  try {
    if (known)
      ++metrics().traces_reused;
    else
      known = compile(key, settings, slice, live, reason, nullptr);
    run_here(*known, slice, side);
  } catch (const std::exception&) {
    return {};  // the trace itself will fail, and so its values
  }
  raise_shadow_mismatch();
  const uint32_t line = line_here();
  metrics().peek(std::to_string(slice.size()) + " ops", line_text(line), now_us() - start);
  if (Observer* o = Observer::if_on()) o->peeked(line, start, now_us());
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

// Whether the trace should end because it repeats itself. One that goes the way of a known trace need not be looked at.
bool repeats(Recorder& r) {
  const KnownTrace* known = TraceCache::get().expected;
  if (known && !r.repetition.in_loop() && r.trace.begins(known->code)) {
    r.repetition.wait_until(known->code.size());
    if (r.trace.size() < known->code.size()) return false;
    if (known->loop) return r.repetition = *known->loop, true;
  }
  return r.repetition.look(r.trace);
}

// What may be differentiated yet keeps other values alive when the trace has ended.
bool keeps_for_backward(const Trace& trace) {
  return trace.is_kept_from || std::ranges::any_of(trace.segments, &SegmentRef::shared);
}

// Whether all of a long known trace has been recorded once more. Its plan serves a loop that goes on without a read,
// too, and whatever follows this time.
bool is_known(const Recorder& r) {
  TraceCache& cache = TraceCache::get();
  if (!cache.may_be_long(r.trace) || r.repetition.in_loop()) return false;
  const KnownTrace* expected = cache.expected;
  if (expected && r.trace.size() < expected->code.size() && r.trace.begins(expected->code)) return false;
  if (keeps_for_backward(r.trace)) return false;
  const std::vector<ValueId> live = r.trace.live();
  const Settings settings = settings_now();
  const KnownRef known = cache.find(key_of(settings, r.trace, live), settings, r.trace, live);
  return known && known->is_long;
}

// Whether somebody else has the value, or its memory.
bool is_shared(const Cell& c) { return c.references.load() > 1 || c.buffer.owner.use_count() > 1; }
CellRef copy_of(const Cell& c) {
  jit::Buffer copy = allocate_buffer(c.buffer.bytes);
  backing().copy(copy.data, c.buffer.data, c.buffer.bytes);
  return make_ready(std::move(copy), c.type);
}

// Lets images that are kept for backward lie as convolutions have them. Only where the trace is planned whole: parts
// would copy them.
void keep_images(const Settings& settings, Trace& trace, std::vector<ValueId>& live) {
  jit::CompileOptions options;
  options.matmul = settings.matmul;
  const auto images = images_to_keep(trace, live, *backing().code().plan_options(options).libraries);
  if (images.empty()) return;
  const uint64_t key = key_of(settings, trace, live);
  if (!runs_whole(key, settings, trace, live)) return;
  for (ValueId v : images) trace.keep_as_image(v);
  live = trace.live();
  TraceCache::get().go_on_counting(key, key_of(settings, trace, live));
}

}  // namespace

void sync(SyncReason reason) {
  Recorder& r = recorder();
  std::lock_guard lock(r.mutex);
  settle_after_fork();
  raise_kept_error();
  if (r.trace.empty()) return;
  RECORD_FUNCTION(std::string("lazuli::sync: ") + name(reason), {});
  HostTimer timer(HostAccount::Ending);
  if (reason != SyncReason::Repeat) r.repetition.restart();
  const RunAhead::Halt halt;
  RunAhead& ahead = RunAhead::get();
  const bool keeps = keeps_for_backward(r.trace);
  if (keeps) TraceCache::get().take_known_lines(r.trace, r.trace.size());  // which say where what is kept comes from
  r.trace.settle_segments();
  const size_t ops = r.trace.size();
  auto trace = std::make_shared<Trace>(std::move(r.trace));
  r.trace = SpareTraces::get().take(r.next_epoch++);
  trace->let_go_of_images();
  std::vector<ValueId> live = trace->live();
  double start = now_us();
  const Settings settings = settings_now();
  if (keeps && is_read(reason)) keep_images(settings, *trace, live);
  const uint64_t key = key_of(settings, *trace, live);
  KnownRef known = TraceCache::get().find(key, settings, *trace, live);
  // From here on somebody else computes them.
  for (ValueId v : live) {
    trace->cell(v)->state = Cell::State::Ready;
    trace->cell(v)->epoch = 0;
  }
  try {
    or_fail(*trace, live, [&] {
      if (!known) {
        TraceCache::get().take_known_lines(*trace, trace->size());
        known = compile(key, settings, *trace, live, reason, ahead.made());
      } else if (!live.empty()) {
        ++metrics().traces_reused;
        TraceCache::get().novelty.is_known(trace->size());
      }
    });
    ahead.forget();
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
    ahead.forget();
    if (Observer* o = Observer::if_on()) o->failed();
    TraceCache::get().predict(nullptr);
    throw;
  }
  TraceCache::get().predict(known->code.empty() ? nullptr : known.get());
  const uint32_t line = line_here();
  const bool asked =
      reason == SyncReason::Read || reason == SyncReason::HostCopy || reason == SyncReason::DataDependent;
  metrics().sync(reason, asked && running_derivative ? running_derivative() : "", line_text(line), now_us() - start);
  if (Observer* o = Observer::if_on()) o->ended(key, reason, line, ops, known->code.lines, start, now_us());
}

void finish() {
  sync(SyncReason::Explicit);
  wait_for_runner();
  HostTimer timer(HostAccount::Waiting);
  backing().wait();
}

void finish_unread() {
  Recorder& r = recorder();
  {
    std::lock_guard lock(r.mutex);
    settle_after_fork();
    if (!kept_error() && (r.trace.empty() || !unread_bytes(r.trace, r.trace.live()))) return;
  }
  finish();
}

jit::Buffer materialize(const at::Tensor& t, SyncReason reason, bool writable) {
  return materialize(storage_of(t), reason, writable);
}

jit::Buffer materialize(LazyStorage& s, SyncReason reason, bool writable) {
  ++reads;
  std::lock_guard lock(recorder().mutex);
  settle_after_fork();
  raise_kept_error();
  if (s.cell_ref()->state == Cell::State::Pending) {
    if (!writable) {
      if (auto apart = peek(reason, *s.cell())) {
        if (has_much_beside_peeks(recorder().trace)) sync(SyncReason::Peeked);
        return *std::move(apart);
      }
    }
    sync(reason);
  }
  if (writable || !is_filled(*s.cell(), Runner::get().completed())) wait_for_runner();
  Cell* c = s.cell();
  const Cell& holder = holder_of(*c);
  if (holder.state == Cell::State::Failed) holder.failure->raise();
  if (c->channels_last) bring_back(holder.buffer), make_row_major(*c);
  if (c->state == Cell::State::Uninitialized) {
    s.rebind(make_ready(allocate_buffer(s.nbytes()), c->type));
    c = s.cell();
  }
  LAZULI_CHECK(c->state == Cell::State::Ready, "a sync left a live value without a buffer");
  bring_back(c->buffer);
  if (writable && is_shared(*c)) {
    s.rebind(copy_of(*c));
    c = s.cell();
  }
  if (writable) {
    s.will_be_written();
    if (jit::PackedOperands* packed = packed_operands()) packed->written(c->buffer);
  }
  return c->buffer;
}

void own_memory(const at::Tensor& t) {
  std::lock_guard lock(recorder().mutex);
  LazyStorage& s = storage_of(t);
  Cell* c = s.cell();
  const Cell& holder = holder_of(*c);
  if (holder.state != Cell::State::Ready) return;
  wait_for_runner();
  if (!c->channels_last) {
    if (is_shared(*c)) s.rebind(copy_of(*c));
  } else if (holder.buffer.owner.use_count() > 1) {
    c->channels_last = copy_of(holder);
  }
}

jit::Buffer materialize_alone(LazyStorage& s) {
  std::lock_guard lock(recorder().mutex);
  std::exception_ptr others = std::exchange(kept_error(), nullptr);
  jit::Buffer buffer;
  try {
    buffer = materialize(s, SyncReason::HostCopy);
  } catch (...) {
    if (holder_of(*s.cell()).state != Cell::State::Ready) throw;
    if (!others) others = std::current_exception();
    buffer = materialize(s, SyncReason::HostCopy);
  }
  kept_error() = others;
  return buffer;
}

at::Tensor host_view(const at::Tensor& t, const jit::Buffer& memory) {
  auto* data = static_cast<char*>(memory.data) + t.storage_offset() * static_cast<int64_t>(t.itemsize());
  at::Tensor view = tensor_over(data, t.sizes(), t.strides(), t.scalar_type(), memory.owner);
  set_view_bits(view, geometry_of(t));
  return view;
}

at::Tensor host_view(const at::Tensor& t, SyncReason reason, bool writable) {
  return host_view(t, materialize(t, reason, writable));
}

std::optional<c10::Stream> stream_to_read(const at::Tensor& t) {
  std::lock_guard lock(recorder().mutex);
  const Cell* c = storage_of(t).cell_ref().get();
  const bool peeked = c->state == Cell::State::Pending;
  if (!peeked && (c->state != Cell::State::Ready || !is_filled(*c, Runner::get().completed()))) return {};
  return backing().side_stream();
}

std::string pending_text() {
  Recorder& r = recorder();
  std::lock_guard lock(r.mutex);
  TraceCache::get().take_known_lines(r.trace, r.trace.size());
  return ir::print(freeze(r.trace, r.trace.live()));
}

void cut_if_due() {
  Recorder& r = recorder();
  if (r.alone == std::this_thread::get_id()) return;  // what it records is one whole, which a cut would take apart
  const Config& c = config();
  const int64_t limit = c.max_pending_bytes ? c.max_pending_bytes : backing().pending_limit();
  const int64_t bytes = r.trace.pending_bytes();
  static UnreadBound unread;
  if (unread.is_reached(r.trace)) return sync(SyncReason::Bound);
  if (c.cut_at_repeat && is_known(r)) return sync(SyncReason::Known);
  if ((r.trace.size() >= r.repetition.due() || bytes >= limit) && c.cut_at_repeat && repeats(r))
    return sync(SyncReason::Repeat);
  // A loop that has just been found may come to the end of its iteration.
  const int64_t more = r.repetition.in_loop() ? limit / 2 : 0;
  if (static_cast<int64_t>(r.trace.size()) >= c.max_pending_ops || bytes >= limit + more) sync(SyncReason::Bound);
}

void cut_after_whole() {
  constexpr size_t kWorthIt = 64;  // entries
  Recorder& r = recorder();
  std::lock_guard lock(r.mutex);
  if (!backing().overlaps_host || !config().cut_at_repeat || r.trace.size() < kWorthIt || keeps_for_backward(r.trace))
    return;
  sync(SyncReason::Known);
}

bool needs_lines() {
  TraceCache& c = TraceCache::get();
  if (!config().source_lines) return false;
  Trace& trace = recorder().trace;
  if (!c.learning) {
    if (trace.begins(c.expected->code)) return false;
    // It left the known path here: what went before has that path's lines.
    c.take_known_lines(trace, trace.size() - 1);
    c.learning = true;
  }
  return true;
}

}  // namespace lazuli::lazy
