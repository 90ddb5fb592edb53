// What the observer knows, as dicts and lists for Python. torch_lazuli/report/data.py documents them.
#include <mutex>
#include "lazy/memory/backing.h"
#include "lazy/report/observer.h"
#include "lazy/support/source.h"

namespace lazuli::lazy {
namespace {

c10::IValue as_list(const c10::impl::GenericList& l) { return l; }

}  // namespace

c10::IValue Observer::take() {
  c10::impl::GenericDict all = new_dict();
  Nests nests;
  {
    std::lock_guard lock(mutex_);
    for (auto& [key, info] : traces_) count_alike(info);
    nests = nests_;
    const auto number = [&](uint32_t interned) {
      const auto known = numbers_.find(interned);
      return known == numbers_.end() ? int64_t{0} : known->second;
    };
    const auto single = [&](const SingleRun& r) {
      c10::List<int64_t> where;
      c10::List<double> when;
      for (const Launch& l : r.launches) {
        where.push_back(static_cast<int64_t>(l.executable)), where.push_back(l.step);
        when.push_back(l.begin), when.push_back(l.us);
      }
      c10::impl::GenericDict d = new_dict();
      d.insert("begin", r.begin - start_), d.insert("us", r.us), d.insert("where", where), d.insert("when", when);
      return d;
    };
    c10::impl::GenericList traces(c10::AnyType::get());
    for (uint64_t key : order_) {
      const TraceInfo& info = traces_.at(key);
      c10::impl::GenericDict d = new_dict();
      d.insert("key", static_cast<int64_t>(key)), d.insert("ops", info.ops), d.insert("runs", info.runs);
      d.insert("compiles", info.compiles), d.insert("line", info.line),
          d.insert("reason", std::string(name(info.reason)));
      d.insert("ends", info.ends), d.insert("first", info.first_us - start_), d.insert("run_us", info.run_us);
      d.insert("compile_us", info.compile_us), d.insert("passes_ms", info.stats.passes_ms);
      d.insert("lowering_ms", info.stats.lowering_ms), d.insert("codegen_ms", info.stats.codegen_ms);
      d.insert("parts", info.stats.parts);
      if (info.is_new) {
        const Novelty& x = info.novelty;
        c10::impl::GenericDict n = new_dict();
        n.insert("kind", std::string(name(x.kind))), n.insert("what", x.what), n.insert("now", x.now);
        n.insert("before", x.before), n.insert("line", number(x.line)), n.insert("line_before", number(x.line_before));
        n.insert("key_before", static_cast<int64_t>(x.key_before)), n.insert("entry", static_cast<int64_t>(x.entry));
        d.insert("new", n);
      }
      c10::List<int64_t> executables;
      for (uint64_t e : info.executables) executables.push_back(static_cast<int64_t>(e));
      d.insert("executables", executables);
      c10::impl::GenericList kept(c10::AnyType::get());
      for (const SingleRun& r : info.kept) kept.push_back(single(r));
      if (!info.kept.empty() && info.last.begin > info.kept.back().begin) kept.push_back(single(info.last));
      d.insert("kept", kept), d.insert("slowest", single(info.slowest));
      traces.push_back(d);
    }
    c10::impl::GenericList executables(c10::AnyType::get());
    for (const auto& [id, e] : executables_) {
      c10::impl::GenericDict d = e.description.copy();
      c10::List<int64_t> count;
      c10::List<double> total, least, most, device_total;
      c10::List<int64_t> device_count;
      for (uint32_t s = 0; s < e.times.size(); ++s) {
        const StepTime& t = e.times[s];
        count.push_back(t.count), total.push_back(t.total), least.push_back(t.least), most.push_back(t.most);
        const DeviceTimes::Time on_device = device_times_.of(id, s);
        device_count.push_back(on_device.count), device_total.push_back(on_device.total);
      }
      d.insert("id", static_cast<int64_t>(id)), d.insert("count", count), d.insert("total", total);
      d.insert("least", least), d.insert("most", most);
      if (backing().overlaps_host) d.insert("device_count", device_count), d.insert("device_total", device_total);
      executables.push_back(d);
    }
    c10::List<int64_t> line, ops;
    c10::List<double> us;
    for (const auto& [at, times] : lines_) {
      line.push_back(at);
      const auto recorded = ops_.find(at);
      ops.push_back(recorded == ops_.end() ? 0 : recorded->second);
      for (double t : times) us.push_back(t);
    }
    c10::List<int64_t> kind, reason, where, key;
    c10::List<double> begin, took;
    for (size_t i = 0; i < happenings_.size(); ++i) {
      const Happening& h = happenings_[(oldest_ + i) % happenings_.size()];
      kind.push_back(static_cast<int64_t>(h.kind)), reason.push_back(h.reason), where.push_back(h.line);
      key.push_back(static_cast<int64_t>(h.key)), begin.push_back(h.begin - start_), took.push_back(h.us);
    }
    c10::List<double> at;
    c10::List<int64_t> live, peak_line, peak_bytes;
    for (const auto& [t, bytes] : samples_) at.push_back(t - start_), live.push_back(bytes);
    for (const auto& [l, bytes] : peak_lines_) peak_line.push_back(l), peak_bytes.push_back(bytes);
    all.insert("us", (stop_ ? stop_ : now_us()) - start_);
    all.insert("traces", as_list(traces)), all.insert("executables", as_list(executables));
    all.insert("line", line), all.insert("line_ops", ops), all.insert("line_us", us);
    all.insert("event_kind", kind), all.insert("event_reason", reason), all.insert("event_line", where);
    all.insert("event_key", key), all.insert("event_begin", begin), all.insert("event_us", took);
    all.insert("events_lost", lost_), all.insert("left_out", left_out_);
    all.insert("memory_at", at), all.insert("memory_live", live), all.insert("peak", peak_);
    all.insert("peak_at", peak_at_ - start_), all.insert("peak_key", static_cast<int64_t>(peak_key_));
    all.insert("peak_line", peak_line), all.insert("peak_bytes", peak_bytes);
    all.insert("texts", texts_.list());
  }
  c10::List<std::string> reasons;
  for (int r = 0; r <= static_cast<int>(SyncReason::Collective); ++r)
    reasons.push_back(name(static_cast<SyncReason>(r)));
  all.insert("reasons", reasons);
  all.insert("backing", backing().device().str());
  all.insert("nests", as_list(nests.texts()));
  return all;
}

}  // namespace lazuli::lazy
