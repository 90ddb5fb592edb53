#include "lazy/run/run_ahead.h"

#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include "lazy/memory/backing.h"
#include "lazy/memory/memory.h"
#include "lazy/rows/torch_host.h"
#include "lazy/run/compile.h"
#include "lazy/shadow/shadow.h"
#include "lazy/support/config.h"
#include "lazy/support/source.h"
#include "lowering/threads/crew.h"

namespace lazuli::lazy {
namespace {

// What is packed stays so for whoever runs traces, and profiles are of that thread.
struct AheadHost final : TorchHost {
  jit::PackedOperands* packed_operands() override { return nullptr; }
  std::shared_ptr<void> profile(const std::function<std::string()>&) override { return nullptr; }
  jit::RunObserver* observer() override { return nullptr; }
};

template <class T, class From>
void append(std::vector<T>& list, const From& from, size_t begin) {
  if (begin < from.size()) list.insert(list.end(), from.begin() + static_cast<ptrdiff_t>(begin), from.end());
}

bool is_profiled() { return at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION).has_value(); }

}  // namespace

RunAhead::Halt::Halt() {
  RunAhead& r = get();
  ++r.halting_;
  // What it is at is needed, most likely.
  if (r.busy_.try_lock()) return;
  const WithoutPython released;
  lowering::help_background([] { return get().busy_.try_lock(); });
}

RunAhead::Halt::~Halt() {
  RunAhead& r = get();
  r.busy_.unlock();
  if (--r.halting_ == 0 && r.parts_) lowering::continue_background();  // with what it was halted at
}

bool RunAhead::may_start() {
  if (config().run_ahead == "off" || backing().overlaps_host || !may_run_in_parts() || !config().debug.empty() ||
      is_reference_mode())
    return false;
  return !is_forked() && !Shadow::is_due() && !is_profiled() && TraceCache::get().parts.knows_prospects();
}

// Where OpenMP's threads are awake there is no core left, yet. To end them pays where recording takes long, if parts
// can run then: where cores are few. Of many, some other one will do soon.
bool RunAhead::makes_room() {
  constexpr double kLongUs = 1000;
  constexpr int kFewCores = 4;
  if (room_.waits > 0 || room_.recorded_us < kLongUs || lowering::crew_size() > kFewCores) return false;
  lowering::end_openmp_threads();
  return room_.is_made = true;
}

void RunAhead::look_again(const Trace& trace) {
  due_ = trace.size() + kChunk;
  if (!parts_) {
    const bool may = may_start();
    if (room_.began_us == 0) room_.began_us = now_us();
    if (may && TraceCache::get().knows_beginning(trace)) return;
    if (may && config().run_ahead != "all" && lowering::is_openmp_awake() && !makes_room()) return;
    if (!may || !start()) {
      due_ = SIZE_MAX;
      return;
    }
  }
  hand_over(trace);
}

bool RunAhead::start() {
  const Halt halt;
  const bool by_itself = lowering::begin_background([] { return get().step(); });
  if (!by_itself && config().run_ahead != "all") return false;
  parts_ = std::make_unique<jit::PartsAhead>(TraceCache::get().parts, compile_options(settings_now(), 0), line_text);
  float_mode_ = lowering::FloatMode::here();
  return true;
}

void RunAhead::hand_over(const Trace& trace) {
  {
    std::lock_guard lock(mutex_);
    append(inbox_.entries, trace.entries(), handed_.entries);
    append(inbox_.operands, trace.operands(), handed_.operands);
    append(inbox_.attrs, trace.attrs(), handed_.attrs);
    for (size_t e = handed_.entries; e < trace.size(); ++e)
      inbox_.lines.push_back(e < trace.lines.size() ? trace.lines[e] : 0);
    append(inbox_.seams, trace.seams(), handed_seams_);
    append(inbox_.scalars, trace.scalars(), handed_scalars_);
    for (size_t v = handed_.values; v < trace.value_count(); ++v) {
      const Cell* c = trace.cell(static_cast<ValueId>(v));
      inbox_.types.push_back(c ? &c->type : nullptr);
    }
    for (size_t e = handed_.entries; e < trace.size(); ++e)
      if (const Entry& entry = trace.entries()[e]; entry.op == ir::Op::input) {
        const Cell& cell = *trace.cell(entry.first_result);
        const jit::Buffer& b = cell.buffer;
        bring_back(b);
        inbox_.inputs.push_back({{b.data, b.bytes, {}}, b.owner, cell.is_appended_to});
      }
  }
  lowering::continue_background();
  handed_ = trace.place();
  handed_seams_ = trace.seams().size(), handed_scalars_ = trace.scalars().size();
}

bool RunAhead::take_inbox() {
  jit::PartsAhead::Recorded taken;
  {
    std::lock_guard lock(mutex_);
    if (inbox_.entries.empty()) return false;
    std::swap(taken, inbox_);
  }
  parts_->append(taken);
  return true;
}

bool RunAhead::step() {
  // Torch's first call on a thread sets how many threads it has.
  static thread_local const int torch_threads = at::get_num_threads();
  (void)torch_threads;
  std::unique_lock lock(busy_, std::try_to_lock);
  if (!lock || halting_ != 0 || !parts_) return false;
  AheadHost host;
  const lowering::FloatMode::While same(float_mode_);
  const bool more = take_inbox();
  return parts_->step(host) || more;
}

jit::PartsAhead* RunAhead::made() {
  constexpr int64_t kWorthIt = 3;  // parts
  constexpr int kMostWaits = 32;
  if (room_.began_us != 0) room_.recorded_us = now_us() - room_.began_us;
  if (room_.waits > 0) --room_.waits;
  if (room_.is_made) {
    const bool is_used = parts_ && parts_->runs() >= kWorthIt;
    room_.waits = is_used ? 0 : room_.next_waits;
    room_.next_waits = is_used ? 1 : std::min(2 * room_.next_waits, kMostWaits);
  }
  if (float_mode_ != lowering::FloatMode::here()) return nullptr;
  if (!parts_ || config().run_ahead != "all") return parts_.get();
  take_inbox();
  AheadHost host;
  while (parts_->step(host)) {}
  return parts_.get();
}

void RunAhead::forget() {
  if (jit::PackedOperands* packed = packed_operands(); packed && parts_)
    for (const jit::Buffer& memory : parts_->appended()) packed->written(memory);
  parts_ = nullptr;
  room_.began_us = 0, room_.is_made = false;
  due_ = kChunk;
  handed_ = {};
  handed_seams_ = handed_scalars_ = 0;
  std::lock_guard lock(mutex_);
  inbox_ = {};
}

void RunAhead::end() {
  RunAhead& r = get();
  ++r.halting_;
  r.busy_.lock();  // for good
  r.busy_.unlock();
}

}  // namespace lazuli::lazy
