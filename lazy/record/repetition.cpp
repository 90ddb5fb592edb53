#include "lazy/record/repetition.h"

#include <algorithm>

namespace lazuli::lazy {
namespace {

constexpr size_t kRepeats = 3;    // of a period, before it counts as one
constexpr size_t kDeepest = 128;  // more repeats than a network has equal layers
constexpr size_t kPeriods = 32;   // that are tried

// A run-time number's place in the list of them is its own.
std::span<const int64_t> common_attrs(const Trace& trace, const Entry& e) {
  const auto attrs = trace.attrs(e);
  return e.op == ir::Op::scalar ? attrs.subspan(2) : attrs;
}

// What a repeated entry has in common with the first, and a hash of it.
bool same_kind(const Trace& trace, const Entry& a, const Entry& b) {
  return a.op == b.op && a.results == b.results && a.operand_count == b.operand_count &&
         std::ranges::equal(common_attrs(trace, a), common_attrs(trace, b));
}
uint64_t kind_of(const Trace& trace, const Entry& e) {
  uint64_t h = mix(static_cast<uint64_t>(e.op), uint64_t(e.results) | uint64_t(e.operand_count) << 32);
  for (int64_t a : common_attrs(trace, e)) h = mix(h, static_cast<uint64_t>(a));
  return for_lookup(h);
}

// The trace without its inputs, which stand where a value is first used: only in a loop's first iteration, mostly.
struct Body {
  static constexpr uint32_t kInput = UINT32_MAX;
  explicit Body(const Trace& t) : trace(t), rank(t.value_count(), kInput) {
    for (uint32_t i = 0; i < t.size(); ++i) {
      const Entry& e = t.entries()[i];
      if (e.op == ir::Op::input) continue;
      begins.push_back(values);
      entries.push_back(&e);
      for (uint16_t r = 0; r < e.results; ++r) rank[e.first_result + r] = values++;
    }
    begins.push_back(values);
  }
  size_t size() const { return entries.size(); }

  const Trace& trace;
  std::vector<const Entry*> entries;
  std::vector<uint32_t> begins;  // the rank of each entry's first result; at the end, how many values there are
  std::vector<uint32_t> rank;    // by value: its number among the body's
  uint32_t values = 0;
};

std::vector<uint64_t> kinds_of(const Body& body) {
  std::vector<uint64_t> kinds;
  for (const Entry* e : body.entries) kinds.push_back(kind_of(body.trace, *e));
  return kinds;
}

// The Z-function of the list read backwards: how far its end matches what stands `p` earlier, for each p.
std::vector<size_t> matches_before(const std::vector<uint64_t>& list) {
  const size_t n = list.size();
  const auto at = [&](size_t i) { return list[n - 1 - i]; };
  std::vector<size_t> z(n, 0);
  for (size_t i = 1, left = 0, right = 0; i < n; ++i) {
    if (i < right) z[i] = std::min(right - i, z[i - left]);
    while (i + z[i] < n && at(z[i]) == at(i + z[i])) ++z[i];
    if (i + z[i] > right) left = i, right = i + z[i];
  }
  return z;
}

enum class Source { Input, Reused, Shifted, Unlike };

// Where the operand `v` of an entry comes from, of which the period before has `u` in the same place: from an input of
// its own, from what all periods read, or from a result `step` values after u.
Source source_of(const Body& body, ValueId v, ValueId u, uint32_t step) {
  if (v == u) return Source::Reused;
  if (v == kAbsent || u == kAbsent) return Source::Unlike;
  const uint32_t later = body.rank[v], earlier = body.rank[u];
  if (later == Body::kInput && earlier == Body::kInput) return Source::Input;
  return later != Body::kInput && earlier != Body::kInput && later - earlier == step ? Source::Shifted : Source::Unlike;
}

// Calls `f(value, source)` for each operand of the body's entries from `begin` to `end`, compared with `p` entries
// before, until it returns false; returns whether it never did.
template <class F>
bool for_each_source(const Body& body, size_t p, size_t begin, size_t end, F f) {
  const uint32_t step = body.values - body.begins[body.size() - p];
  for (size_t b = begin; b < end; ++b) {
    const auto now = body.trace.operands(*body.entries[b]), before = body.trace.operands(*body.entries[b - p]);
    for (size_t k = 0; k < now.size(); ++k)
      if (!f(now[k], source_of(body, now[k], before[k], step))) return false;
  }
  return true;
}

// Of entries whose kinds have equal hashes.
bool entries_repeat(const Body& body, size_t p) {
  for (size_t b = body.size() - (kRepeats - 1) * p; b < body.size(); ++b)
    if (!same_kind(body.trace, *body.entries[b], *body.entries[b - p])) return false;
  return for_each_source(body, p, body.size() - (kRepeats - 1) * p, body.size(),
                         [](ValueId, Source s) { return s != Source::Unlike; });
}

// How many different values the period at `begin` takes from outside: from its own inputs and results of long ago (such
// as the parameters and gradients that an optimizer goes through), from what all periods read, and from the period
// before.
struct Outside {
  size_t brought = 0, reused = 0, carried = 0;
};
Outside outside_of(const Body& body, size_t p, size_t begin) {
  Outside out;
  std::vector<bool> seen(body.rank.size());
  for_each_source(body, p, begin, begin + p, [&](ValueId v, Source s) {
    if (v == kAbsent || seen[v]) return true;
    seen[v] = true;
    if (s == Source::Reused)
      ++out.reused;
    else if (s == Source::Input || body.rank[v] < body.begins[begin - p])
      ++out.brought;
    else if (body.rank[v] < body.begins[begin])
      ++out.carried;
    return true;
  });
  return out;
}

// How many values of the period before the last are still held, by others than the trace.
size_t held_of_older(const Body& body, size_t p) {
  const uint32_t begin = body.begins[body.size() - 2 * p], end = body.begins[body.size() - p];
  size_t held = 0;
  for (size_t v = 0; v < body.rank.size(); ++v)
    if (body.rank[v] >= begin && body.rank[v] < end) {
      const Cell* c = body.trace.cell(static_cast<ValueId>(v));
      held += c && c->references.load(std::memory_order_relaxed) > 1;
    }
  return held;
}

// The entry of the last period but one before which the fewest bytes wait to be read.
size_t narrowest(const Body& body, size_t p) {
  const size_t n = body.size();
  std::vector<size_t> last_use(body.rank.size(), 0);
  for (size_t b = 0; b < n; ++b)
    for (ValueId v : body.trace.operands(*body.entries[b]))
      if (v != kAbsent) last_use[v] = b;
  std::vector<int64_t> change(n + 1, 0);  // of the bytes that wait, from one entry to the next
  for (size_t b = 0; b < n; ++b)
    for (uint16_t r = 0; r < body.entries[b]->results; ++r) {
      const ValueId v = body.entries[b]->first_result + r;
      if (last_use[v] <= b) continue;
      const Cell* c = body.trace.cell(v);
      const int64_t bytes = c ? int64_t{c->type.bytes()} : 0;
      change[b + 1] += bytes;
      change[last_use[v] + 1] -= bytes;
    }
  size_t best = n - 2 * p;
  int64_t waiting = 0, fewest = INT64_MAX;
  for (size_t b = 0; b < n - p; ++b) {
    waiting += change[b];
    if (b >= n - 2 * p && waiting < fewest) best = b, fewest = waiting;
  }
  return best;
}

// Whether the period at `begin` reads mostly values of its own, as a network's layer does.
bool is_layer(const Outside& outside) { return outside.brought >= outside.reused + outside.carried; }

// Whether an iteration of a loop begins at `begin`, and not a layer.
bool is_iteration(const Body& body, size_t p, size_t begin, size_t repeats) {
  const Outside outside = outside_of(body, p, begin);
  const size_t held = held_of_older(body, p);
  if (held > 1 + p / 8) return false;
  return is_layer(outside) ? outside.carried > 0 && repeats >= kDeepest : outside.carried > 0 || held > 0;
}

}  // namespace

void Repetition::restart() {
  due_ = kFirstLook;
  period_.clear();
  trace_entries_ = kTraceEntries;
  block_ = nullptr;
}

void Repetition::begins_block(const void* block, const Trace& trace) {
  if (in_loop() || trace_entries_ == kTraceEntriesOfBlocks) return;
  if (!block_) block_ = block, block_count_ = 0;
  block_count_ += block == block_;
  if (block_count_ <= kRepeats || trace.size() < kTraceEntriesOfBlocks) return;
  trace_entries_ = kTraceEntriesOfBlocks;
  due_ = std::min(due_, trace.size());
}

bool Repetition::find(const Trace& trace) {
  const Body body(trace);
  const std::vector<uint64_t> kinds = kinds_of(body);
  const std::vector<size_t> matches = matches_before(kinds);
  const size_t n = body.size();
  size_t tried = 0;
  for (size_t p = 1; p <= n / kRepeats && tried < kPeriods; ++p) {
    if (matches[p] < (kRepeats - 1) * p || !entries_repeat(body, p)) continue;
    ++tried;
    const size_t repeats = matches[p] / p + 1;
    // A layer may repeat several times in a loop's body: then a multiple of it is the period.
    if (repeats < kDeepest && is_layer(outside_of(body, p, n - 2 * p))) continue;
    const size_t begin = narrowest(body, p);
    if (!is_iteration(body, p, begin, repeats)) continue;
    period_.resize(p);
    for (size_t b = n - p; b < n; ++b) period_[b % p] = kinds[b];
    known_ = n;
    cut_at_ = begin + 2 * p;
    return true;
  }
  return false;
}

bool Repetition::goes_on(const Trace& trace, size_t body) const {
  if (known_ == 0 && trace.hash() == last_cut_) return true;
  size_t b = body;
  for (size_t i = trace.size(); b > known_;) {
    const Entry& e = trace.entries()[--i];
    if (e.op == ir::Op::input) continue;
    if (kind_of(trace, e) != period_[--b % period_.size()]) return false;
  }
  return true;
}

bool Repetition::look(const Trace& trace) {
  const size_t body = trace.size() - trace.inputs().size();
  if (period_.empty() && !find(trace)) {
    due_ = 2 * trace.size();
    return false;
  }
  if (body < cut_at_) {
    due_ = trace.size() + cut_at_ - body;
    return false;
  }
  const size_t p = period_.size();
  if (!goes_on(trace, body)) {
    restart();
    due_ = std::max(due_, 2 * trace.size());
    return false;
  }
  std::rotate(period_.begin(), period_.begin() + static_cast<ptrdiff_t>(body % p), period_.end());
  if (known_ > 0) {
    // Not as many periods as there are now, which may be what a bound on bytes allows.
    const size_t periods = std::min((trace_entries_ + p - 1) / p, std::max(body / p, size_t{2}) - 1);
    cut_at_ = periods * p;
    known_ = 0;
  }
  last_cut_ = trace.hash();
  due_ = cut_at_;
  return true;
}

}  // namespace lazuli::lazy
