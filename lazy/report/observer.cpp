#include "lazy/report/observer.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include "lazy/memory/backing.h"
#include "lazy/memory/memory.h"
#include "lazy/record/recording.h"
#include "lazy/support/config.h"
#include "lazy/support/source.h"

namespace lazuli::lazy {
namespace {

int64_t live_bytes() { return memory_stats().allocated_bytes[kAllPools].current; }

constexpr size_t kTraces = 1000, kExecutables = 1000, kHappenings = 50'000, kSamples = 8192;
constexpr size_t kKeptRuns = 2;  // single runs of each trace, besides the slowest and the last

double us_of(jit::RunObserver::Time t) {
  return std::chrono::duration<double, std::micro>(t.time_since_epoch()).count();
}

// The run that this thread is at.
struct Current {
  bool is_running = false;
  bool is_measured = false;         // on the device
  bool is_looked_at = false;        // launch by launch
  std::optional<c10::Event> begin;  // of the launch that is being made
  uint64_t described = 0;           // the executable that was looked at last
  std::vector<uint64_t> executables;
  struct Launch {
    uint64_t executable;
    uint32_t step;
    double begin, us;
  };
  std::vector<Launch> launches;
  std::vector<int64_t> bytes, lines;  // of what it made
};
thread_local Current current;
thread_local std::vector<Current> outer;  // runs in whose calls another one is made

// The entry that gives a value.
size_t entry_of(const Trace& trace, ValueId v) {
  const auto& entries = trace.entries();
  const auto after = std::ranges::upper_bound(entries, v, {}, &Entry::first_result);
  return static_cast<size_t>(after - entries.begin()) - 1;
}

}  // namespace

Observer& Observer::get() {
  static auto* o = new Observer;  // outlives every thread
  return *o;
}

void Observer::start() {
  std::lock_guard recording(recorder().mutex);
  const int64_t live = live_bytes();
  {
    std::lock_guard lock(mutex_);
    texts_ = {}, nests_ = {}, device_times_ = {};
    lines_.clear(), ops_.clear(), traces_.clear(), order_.clear(), executables_.clear(), happenings_.clear();
    numbers_.clear(), samples_.clear(), holders_.clear(), peak_lines_.clear(), pieces_.clear();
    oldest_ = 0, lost_ = left_out_ = 0, every_ = 1, skipped_ = 0, peak_ = 0, peak_at_ = 0, peak_key_ = 0;
    start_ = now_us(), stop_ = 0;
    texts_.number("");
    samples_.emplace_back(start_, live);
  }
  HostTimer::is_kept = true;
  HostTimer::listener = listen;
  on_ = true;
}

void Observer::stop() {
  std::lock_guard recording(recorder().mutex);
  if (!on_.exchange(false)) return;
  HostTimer::listener = nullptr;
  HostTimer::is_kept = config().time_host;
  std::lock_guard lock(mutex_);
  device_times_.look();
  stop_ = now_us();
}

int64_t Observer::line(uint32_t interned) {
  {
    std::lock_guard lock(mutex_);
    if (const auto known = numbers_.find(interned); known != numbers_.end()) return known->second;
  }
  const std::string text = line_text(interned);
  std::lock_guard lock(mutex_);
  return numbers_[interned] = texts_.number(text);
}

void Observer::listen(const std::array<double, kHostAccounts>& seconds) {
  if (Observer* o = if_on()) o->recorded(seconds);
}

// What was recorded and noted for backward belongs to the entry that was recorded last.
void Observer::recorded(const std::array<double, kHostAccounts>& seconds) {
  const double recording = seconds[static_cast<size_t>(HostAccount::Recording)] * 1e6;
  const double autograd = seconds[static_cast<size_t>(HostAccount::Autograd)] * 1e6;
  if (recording + autograd <= 0 || !recorder().mutex.try_lock()) return;
  std::lock_guard recorder_lock(recorder().mutex, std::adopt_lock);
  if (recorder().trace.empty()) return;
  const auto entry = static_cast<uint32_t>(recorder().trace.size() - 1);
  const auto a = static_cast<float>(recording), b = static_cast<float>(autograd);
  if (!pieces_.empty() && pieces_.back().entry == entry)
    pieces_.back().recording += a, pieces_.back().autograd += b;
  else
    pieces_.push_back({entry, a, b});
}

void Observer::happened(Happening h) {
  if (happenings_.size() < kHappenings) {
    happenings_.push_back(h);
    return;
  }
  happenings_[oldest_] = h;
  oldest_ = (oldest_ + 1) % kHappenings;
  ++lost_;
}

void Observer::ended(uint64_t key, SyncReason reason, uint32_t where, size_t ops, std::span<const uint32_t> lines,
                     double begin_us, double end_us) {
  const int64_t here = line(where);
  const auto line_at = [&](size_t entry) { return entry < lines.size() ? lines[entry] : 0; };
  std::unordered_map<uint32_t, int64_t> numbers;
  const auto number = [&](uint32_t interned) {
    const auto [it, fresh] = numbers.try_emplace(interned, 0);
    if (fresh) it->second = line(interned);
    return it->second;
  };
  struct Took {
    double recording = 0, autograd = 0;
    int64_t ops = 0;
  };
  std::unordered_map<int64_t, Took> took;
  for (const Piece& p : pieces_) {
    Took& t = took[number(line_at(p.entry))];
    t.recording += p.recording, t.autograd += p.autograd;
  }
  for (size_t i = 0; i < ops; ++i) ++took[number(line_at(i))].ops;
  pieces_.clear();
  std::lock_guard lock(mutex_);
  for (const auto& [at, t] : took) {
    add(at, Recording, t.recording);
    add(at, Autograd, t.autograd);
    ops_[at] += t.ops;
  }
  happened({Kind::Sync, static_cast<uint8_t>(reason), static_cast<int32_t>(here), key, begin_us, end_us - begin_us});
  const auto known = traces_.find(key);
  if (known == traces_.end()) return;
  ++known->second.ends;
  known->second.ops = static_cast<int64_t>(ops), known->second.line = here, known->second.reason = reason;
}

void Observer::compiled(uint64_t key, const Novelty& novelty, bool is_new, const jit::CompileStats& stats,
                        uint32_t where, double begin_us, double end_us) {
  const int64_t here = line(where);
  line(novelty.line), line(novelty.line_before);
  std::lock_guard lock(mutex_);
  const double planning = (stats.passes_ms + stats.lowering_ms) * 1000;
  add(here, Planning, std::min(planning, end_us - begin_us));
  add(here, Compiling, std::max(0.0, end_us - begin_us - planning));
  happened({Kind::Compile, 0, static_cast<int32_t>(here), key, begin_us, end_us - begin_us});
  if (traces_.size() >= kTraces && !traces_.contains(key)) {
    ++left_out_;
    return;
  }
  const auto [it, fresh] = traces_.try_emplace(key);
  TraceInfo& info = it->second;
  if (fresh) order_.push_back(key), info.first_us = begin_us;
  ++info.compiles;
  count_alike(info);
  info.is_changed = true;
  info.compile_us += end_us - begin_us;
  info.stats = stats;
  if (is_new) info.is_new = true, info.novelty = novelty;
}

void Observer::peeked(uint32_t where, double begin_us, double end_us) {
  const int64_t here = line(where);
  std::lock_guard lock(mutex_);
  happened({Kind::Peek, 0, static_cast<int32_t>(here), 0, begin_us, end_us - begin_us});
}

void Observer::external(const std::string& op, const std::string& where, double begin_us, double end_us) {
  std::lock_guard lock(mutex_);
  happened({Kind::External, 0, static_cast<int32_t>(texts_.number(where)), static_cast<uint64_t>(texts_.number(op)),
            begin_us, end_us - begin_us});
}

Observer::Run::Run(Observer* observer, uint64_t key, const Trace& trace)
    : observer_(observer), key_(key), begin_(observer ? now_us() : 0) {
  if (!observer_) return;
  is_nested_ = current.is_running;
  if (is_nested_) outer.push_back(std::exchange(current, {}));
  current.is_running = true;
  current.executables.clear(), current.launches.clear();
  std::lock_guard lock(observer_->mutex_);
  const auto known = observer_->traces_.find(key);
  static const TraceInfo kNew;
  const TraceInfo& info = known == observer_->traces_.end() ? kNew : known->second;
  current.is_measured = backing().overlaps_host && observer_->device_times_.is_due(info.runs, info.measured);
  current.is_looked_at = current.is_measured || info.is_changed || !backing().overlaps_host;
  for (ValueId v : trace.inputs())
    if (const jit::Buffer& b = trace.cell(v)->buffer; b.data && !observer_->holders_.contains(b.data))
      observer_->hold(b, 0);
}

void Observer::Run::made(const Trace& trace, std::span<const uint32_t> lines, std::span<const ValueId> live) {
  if (!observer_) return;
  std::vector<int64_t> where;
  for (ValueId v : live) {
    const size_t entry = entry_of(trace, v);
    where.push_back(observer_->line(entry < lines.size() ? lines[entry] : 0));
  }
  std::lock_guard lock(observer_->mutex_);
  for (size_t i = 0; i < live.size(); ++i) observer_->hold(trace.cell(live[i])->buffer, where[i]);
}

Observer::Run::~Run() {
  if (!observer_) return;
  current.is_running = false;
  const double end = now_us();
  observer_->sample(end);
  std::lock_guard lock(observer_->mutex_);
  observer_->finish(key_, begin_, end);
  if (!is_nested_) return;
  current = std::move(outer.back());
  outer.pop_back();
}

void Observer::count(const SingleRun& run, int64_t times, bool is_seen) {
  for (const Launch& l : run.launches) {
    const auto it = executables_.find(l.executable);
    if (it == executables_.end() || l.step >= it->second.times.size()) continue;
    StepTime& t = it->second.times[l.step];
    const double us = l.us, all = us * static_cast<double>(times);
    if (is_seen) {
      t.least = t.count ? std::min(t.least, us) : us;
      t.most = std::max(t.most, us);
    }
    t.count += times, t.total += all;
    const auto& lines = it->second.lines[l.step];
    for (int64_t at : lines) add(at, Running, all / static_cast<double>(lines.size()));
  }
}

void Observer::count_alike(TraceInfo& info) {
  if (const int64_t times = std::exchange(info.alike, 0)) count(info.last, times, /*is_seen=*/false);
}

void Observer::keep(TraceInfo& info, SingleRun run) {
  count_alike(info);
  info.is_changed = false;
  info.executables = current.executables;
  if (run.us > info.slowest.us) info.slowest = run;
  if (info.kept.size() < kKeptRuns) info.kept.push_back(run);
  info.last = std::move(run);
}

void Observer::finish(uint64_t key, double begin, double end) {
  device_times_.ran(current.is_measured);
  device_times_.look();
  happened({Kind::Run, 0, 0, key, begin, end - begin});
  TraceInfo* info = nullptr;
  if (traces_.contains(key) || traces_.size() < kTraces) {
    const auto [it, fresh] = traces_.try_emplace(key);
    info = &it->second;
    if (fresh) order_.push_back(key), info->first_us = begin;  // compiled before the report began
  }
  if (info) ++info->runs, info->measured += current.is_measured, info->run_us += end - begin;
  if (current.is_looked_at) {
    SingleRun run{begin, end - begin, {}};
    for (const Current::Launch& l : current.launches)
      run.launches.push_back({l.executable, l.step, static_cast<float>(l.begin - begin), static_cast<float>(l.us)});
    count(run, 1, /*is_seen=*/true);
    if (info) keep(*info, std::move(run));
  } else if (info) {
    ++info->alike;
  }
  if (samples_.empty() || samples_.back().second <= peak_ + peak_ / 64) return;
  peak_ = samples_.back().second, peak_at_ = samples_.back().first, peak_key_ = key;
  std::unordered_map<int64_t, int64_t> bytes;
  for (const auto& [data, h] : holders_)
    if (!h.owner.expired()) bytes[h.line] += h.bytes;
  peak_lines_.assign(bytes.begin(), bytes.end());
}

void Observer::hold(const jit::Buffer& buffer, int64_t line) {
  if (!buffer.owner) return;
  holders_[buffer.data] = {buffer.owner, static_cast<int64_t>(buffer.bytes), line};
  if (holders_.size() < look_at_holders_) return;
  std::erase_if(holders_, [](const auto& h) { return h.second.owner.expired(); });
  look_at_holders_ = std::max<size_t>(4096, 2 * holders_.size());
}

// Of memory: all of a short report, every second or fourth of a longer one.
void Observer::sample(double at) {
  const int64_t live = live_bytes();
  std::lock_guard lock(mutex_);
  if (++skipped_ < every_ && live <= peak_) return;
  skipped_ = 0;
  samples_.emplace_back(at, live);
  if (samples_.size() < kSamples) return;
  size_t kept = 0;
  for (size_t i = 0; i + 1 < samples_.size(); i += 2)  // of two, the higher one
    samples_[kept++] = samples_[samples_[i].second >= samples_[i + 1].second ? i : i + 1];
  samples_.resize(kept);
  every_ *= 2;
}

void Observer::describe_if_new(uint64_t executable, const ir::Graph& graph, const lowering::Plan* plan) {
  if (current.described == executable && !current.executables.empty()) return;
  current.described = executable;
  if (std::ranges::find(current.executables, executable) == current.executables.end())
    current.executables.push_back(executable);
  std::lock_guard lock(mutex_);
  if (executables_.contains(executable)) return;
  if (executables_.size() >= kExecutables) {
    ++left_out_;
    return;
  }
  Executable e;
  e.description = plan ? describe(graph, *plan, texts_, nests_) : describe(graph, texts_);
  const auto lines = [&](std::span<const uint32_t> nodes) {
    std::vector<int64_t> out;
    for (uint32_t n : nodes) {
      const uint32_t at = graph.nodes[n].line;
      out.push_back(texts_.number(at < graph.lines.size() ? graph.lines[at] : ""));
    }
    return out;
  };
  if (plan)
    for (const lowering::PlanStep& step : plan->steps)
      e.lines.push_back(lines(step.nodes.empty() ? std::span(&step.node, 1) : std::span(step.nodes)));
  else
    for (uint32_t n = 0; n < graph.nodes.size(); ++n) e.lines.push_back(lines({&n, 1}));
  e.times.resize(e.lines.size());
  executables_.emplace(executable, std::move(e));
}

jit::RunObserver* Observer::of_launches() {
  return is_on() && current.is_running && current.is_looked_at ? &get() : nullptr;
}

void Observer::starts() {
  current.begin.reset();
  if (current.is_running && current.is_measured) current.begin = DeviceTimes::mark();
}

void Observer::ran(uint64_t executable, const ir::Graph& graph, const lowering::Plan& plan, uint32_t step, Time begin,
                   Time end) {
  if (!current.is_running) return;
  describe_if_new(executable, graph, &plan);
  if (current.begin) {
    c10::Event done = DeviceTimes::mark();
    std::lock_guard lock(mutex_);
    device_times_.add(executable, step, *std::exchange(current.begin, std::nullopt), std::move(done));
  }
  current.launches.push_back({executable, step, us_of(begin), us_of(end) - us_of(begin)});
}

void Observer::ran_alone(uint64_t executable, const ir::Graph& graph, uint32_t node, Time begin, Time end) {
  if (!current.is_running) return;
  describe_if_new(executable, graph, nullptr);
  current.launches.push_back({executable, node, us_of(begin), us_of(end) - us_of(begin)});
}

}  // namespace lazuli::lazy
