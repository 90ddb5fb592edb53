#include "lazy/run/trace_cache.h"

#include <algorithm>
#include <functional>
#include <unordered_set>
#include <ATen/Context.h>
#include <omp.h>
#include "lazy/external/external_calls.h"
#include "lazy/memory/backing.h"
#include "lazy/record/recording.h"
#include "lazy/support/config.h"

namespace lazuli::lazy {
namespace {

// What torch's settings say about products.
lowering::MatmulSettings matmul_settings() {
  lowering::MatmulSettings s;
  if (!backing().has_tensor_cores) return s;
  const at::Context& torch = at::globalContext();
  const auto allowed = at::CuBLASReductionOption::AllowReducedPrecisionWithSplitK;
  s.tf32 = torch.allowTF32CuBLAS();
  s.bf16_reduced_precision_reduction = torch.allowBF16ReductionCuBLAS() == allowed;
  s.f16_reduced_precision_reduction = torch.allowFP16ReductionCuBLAS() == allowed;
  return s;
}
uint64_t bits_of(const lowering::MatmulSettings& s) {
  return uint64_t{s.tf32} | uint64_t{s.bf16_reduced_precision_reduction} << 1 |
         uint64_t{s.f16_reduced_precision_reduction} << 2;
}

uint64_t hash_of(const Settings& s) {
  const std::hash<std::string> hash;
  return mix(
      mix(hash(s.disable_passes), mix(hash(s.debug), hash(s.other_sizes))),
      mix(bits_of(s.matmul) << 2 | uint64_t{s.fusion} | uint64_t{s.pack} << 1, static_cast<uint64_t>(s.threads)));
}

}  // namespace

Settings settings_now() {
  const Config& c = config();
  return {matmul_settings(), c.fusion, c.max_packed_bytes > 0, omp_get_max_threads(),
          c.disable_passes,  c.debug,  c.other_sizes};
}

uint64_t key_of(const Settings& settings, const Trace& trace, const std::vector<ValueId>& live) {
  uint64_t key = mix(trace.hash(), hash_of(settings));
  for (ValueId v : live) key = mix(key, v);
  return for_lookup(key);
}

TraceCache& TraceCache::get() {
  static auto* c = new TraceCache;
  return *c;
}

KnownRef TraceCache::find(uint64_t key, const Settings& settings, const Trace& trace,
                          const std::vector<ValueId>& live) {
  auto [begin, end] = traces.equal_range(key);
  for (auto it = begin; it != end; ++it)
    if (it->second->live == live && it->second->settings == settings && it->second->code.same_code(trace)) {
      it->second->used = ++clock;
      return it->second;
    }
  return nullptr;
}

KnownRef TraceCache::add(uint64_t key, KnownRef known) {
  if (traces.size() >= static_cast<size_t>(config().max_traces)) forget(known->code);
  known->used = ++clock;
  count(*known, 1);
  return traces.emplace(key, std::move(known))->second;
}

void TraceCache::count(const KnownTrace& known, int by) {
  const auto add = [by](std::unordered_map<uint64_t, int>& counts, uint64_t hash) {
    const auto it = counts.try_emplace(hash, 0).first;
    if ((it->second += by) == 0) counts.erase(it);
  };
  const Trace& code = known.code;
  for (size_t n = kStride; n <= code.size(); n += kStride) add(beginnings_, code.prefix_hashes[n - 1]);
  if (!known.is_long) return;
  add(long_, code.prefix_hashes.back());
  long_sizes_ |= uint64_t{1} << code.size() % 64;
}

bool TraceCache::knows_beginning(const Trace& trace) const {
  const size_t n = trace.size() / kStride * kStride;
  return n == 0 || beginnings_.contains(trace.prefix_hashes[n - 1]);
}

void TraceCache::predict(KnownTrace* done) {
  if (previous) previous->successor = done;
  previous = done;
  expected = done ? done->successor : nullptr;
  learning = expected == nullptr;
}

void TraceCache::take_known_lines(Trace& trace, size_t count) const {
  if (learning) return;
  const auto& known = expected->code.lines;
  trace.lines.assign(known.begin(), known.begin() + static_cast<ptrdiff_t>(std::min(count, known.size())));
}

TraceCache::RunsInParts& TraceCache::runs_of(uint64_t key) {
  if (runs_in_parts_.size() >= static_cast<size_t>(config().max_traces) * 64) runs_in_parts_.clear();
  return runs_in_parts_[key];
}

const TraceCache::RunsInParts* TraceCache::runs_before(uint64_t key) const {
  const auto it = runs_in_parts_.find(key);
  return it == runs_in_parts_.end() ? nullptr : &it->second;
}

void TraceCache::go_on_counting(uint64_t key, uint64_t as) {
  const auto it = runs_in_parts_.find(key);
  if (it != runs_in_parts_.end()) runs_in_parts_.try_emplace(as, it->second);
}

KnownRef TraceCache::find_recent(uint64_t key, const Settings& settings, const Trace& trace,
                                 const std::vector<ValueId>& live) {
  const auto it = std::ranges::find_if(recent_, [&](const Recent& r) {
    return r.key == key && r.known->live == live && r.known->settings == settings && r.code.same_code(trace);
  });
  if (it == recent_.end()) return nullptr;
  recent_.splice(recent_.begin(), recent_, it);
  return it->known;
}

void TraceCache::add_recent(uint64_t key, KnownRef known, const Trace& trace) {
  if (recent_.size() >= kRecent) recent_.pop_back();
  recent_.push_front({key, std::move(known), trace.without_cells()});
}

void TraceCache::forget_external_calls(const Trace& trace) {
  recent_.clear();
  std::unordered_set<int64_t> calls;
  trace.find_external_calls(calls);
  recorder().trace.find_external_calls(calls);
  for (const auto& [key, known] : traces) known->code.find_external_calls(calls);
  parts.find_external_calls(calls);
  keep_external_calls(calls);
}

// Lets go of what was not used for longest, down to three quarters of the bound, and of the external calls that nothing
// else makes: neither `added` nor what is being recorded.
void TraceCache::forget(const Trace& added) {
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
  std::erase_if(traces, [&](const auto& entry) {
    const bool old = is_old(entry.second.get());
    if (old) count(*entry.second, -1);
    return old;
  });
  forget_external_calls(added);
}

}  // namespace lazuli::lazy
