#include "lazy/trace/segment.h"

#include <array>
#include "ir/error.h"
#include "lazy/record/fragment_builder.h"
#include "lazy/shadow/shadow.h"
#include "lazy/trace/freeze.h"

namespace lazuli::lazy {
namespace {

// Differentiates entries of the trace while backward is appended to it.
class InPlace {
 public:
  InPlace(Recording& r, const Trace& trace, const Segment& s, uint64_t needs, std::span<const Replaced> replaced)
      : r_(r), trace_(trace), s_(s), needs_(needs) {
    for (const Replaced& by : replaced) {
      if (!by.input) replace(s.outputs[by.index], by.value);
      for (const Segment::Value& read : s.reads)
        if (by.input && read.tensor == by.index) replace(read, by.value);
    }
    if (!replaced_.empty()) replace_intermediates();
    first_ = trace.entries()[s.begin].first_result;
    const Entry& last = trace.entries()[s.end - 1];
    wanted_.resize(last.first_result + last.results - first_);
    cotangents_.resize(wanted_.size());
    of_reads_.resize(s.reads.size());
  }

  void run(std::span<const ir::Value> cotangents, std::span<ir::Value> out, bool gives_zeros) {
    mark();
    for (size_t i = 0; i < s_.outputs.size(); ++i) {
      const Segment::Value& o = s_.outputs[i];
      if (!o.active || !cotangents[i]) continue;
      add(o.id, o.order ? r_.permute(cotangents[i], s_.order(o)) : cotangents[i]);
    }
    Derivative noted{s_.begin, s_.end, {}, {}};
    const bool is_noted = Shadow::is_due() && replaced_.empty();
    for (size_t i = 0; is_noted && i < s_.outputs.size(); ++i)
      if (const Segment::Value& o = s_.outputs[i]; o.active && cotangents[i])
        noted.outputs.push_back({o.id, id(cotangent(o.id))});
    for (uint32_t i = s_.end; i-- > s_.begin;) pull(i);
    for (size_t i = 0; i < s_.reads.size(); ++i) {
      const Segment::Value& read = s_.reads[i];
      if (!is_wanted(read)) continue;
      ir::Value g = of_reads_[i];
      if (!g && !gives_zeros) continue;
      if (!g) g = r_.full(r_.shape({read.id, 0}), 0, r_.dtype({read.id, 0}));
      if (is_noted) noted.reads.push_back({read.id, id(g)});
      if (read.order) g = r_.permute(g, inverse_of(s_.order(read)));
      ir::Value& sum = out[read.tensor];
      sum = sum ? r_.add(sum, g) : g;
    }
    if (is_noted) r_.note(std::move(noted));
  }

 private:
  static ValueId id(ir::Value v) { return v ? v.node + v.result : kAbsent; }
  void replace(const Segment::Value& v, ir::Value by) {
    if (v.id != kAbsent) replaced_.push_back({v.id, v.order ? r_.permute(by, s_.order(v)) : by});
  }
  // As in a fragment, which computes them again.
  void replace_intermediates() {
    for (uint32_t i = s_.begin; i < s_.end; ++i) {
      const Entry e = trace_.entries()[i];
      if (!follows_replaced(e.op) || replacement(e.first_result) || is_output(e.first_result)) continue;
      bool any = false;
      c10::SmallVector<ir::Value, 4> in;
      for (ValueId v : trace_.operands(e)) {
        any |= static_cast<bool>(replacement(v));
        in.push_back(value(v));
      }
      if (!any) continue;
      const ir::Type type = trace_.cell(e.first_result)->type;
      std::span<const ir::Type> types;
      if (ir::takes_types(e.op)) types = {&type, 1};
      replaced_.push_back(
          {e.first_result, r_.emit(e.op, {in.data(), in.size()}, unpack(trace_.attrs(e), e.op), types)});
    }
  }
  bool is_output(ValueId v) const {
    return std::ranges::any_of(s_.outputs, [&](const Segment::Value& o) { return o.id == v; });
  }
  ir::Value replacement(ValueId v) const {
    for (auto [id, by] : replaced_)
      if (id == v) return by;
    return {};
  }
  ir::Value value(ValueId v) const {
    if (const ir::Value by = replacement(v)) return by;
    return v == kAbsent ? ir::Value{} : ir::Value{v, 0};
  }
  bool is_wanted(const Segment::Value& read) const { return read.active && needs_ >> read.tensor & 1; }
  const Segment::Value* read_of(ValueId v) const {
    for (const auto& r : s_.reads)
      if (r.id == v) return &r;
    return nullptr;
  }
  bool is_wanted(ValueId v) const {
    if (v == kAbsent) return false;
    if (const auto* read = read_of(v)) return is_wanted(*read);
    return v >= first_ && wanted_[v - first_];
  }
  // What gradients are wanted for, through the entries; what shows how a tensor is read ends at that.
  void mark() {
    for (uint32_t i = s_.begin; i < s_.end; ++i) {
      const Entry& e = trace_.entries()[i];
      bool any = false;
      for (ValueId v : trace_.operands(e)) any |= is_wanted(v);
      if (any)
        for (uint16_t j = 0; j < e.results; ++j)
          wanted_[e.first_result + j - first_] = ir::is_floating(trace_.cell(e.first_result + j)->type.dtype);
    }
  }
  ir::Value& cotangent(ValueId v) {
    if (const auto* read = read_of(v)) return of_reads_[static_cast<size_t>(read - s_.reads.begin())];
    return cotangents_[v - first_];
  }
  void add(ValueId v, ir::Value g) {
    if (!g || !is_wanted(v)) return;
    ir::Value& sum = cotangent(v);
    sum = sum ? r_.add(sum, g) : g;
  }
  void pull(uint32_t entry) {
    const Entry e = trace_.entries()[entry];  // backward appends to the list
    c10::SmallVector<ir::Value, 4> results, cotangents;
    bool any = false;
    for (uint16_t j = 0; j < e.results; ++j) {
      results.push_back(value(e.first_result + j));
      cotangents.push_back(cotangents_[e.first_result + j - first_]);
      any |= static_cast<bool>(cotangents.back());
    }
    if (!any) return;
    c10::SmallVector<ir::Value, 8> inputs, out(e.operand_count);
    uint32_t needs = 0;
    for (ValueId v : trace_.operands(e)) {
      if (is_wanted(v)) needs |= 1u << inputs.size();
      inputs.push_back(value(v));
    }
    if (!needs) return;
    ir::Attrs attrs = unpack(trace_.attrs(e), e.op);
    ir::vjp(r_, {e.op, {inputs.data(), inputs.size()}, {results.data(), results.size()}, attrs},
            {cotangents.data(), cotangents.size()}, needs, {out.data(), out.size()});
    for (size_t i = 0; i < inputs.size(); ++i)
      if (needs >> i & 1) add(trace_.operands(e)[i], out[i]);
  }

  Recording& r_;
  const Trace& trace_;
  const Segment& s_;
  const uint64_t needs_;
  ValueId first_;
  c10::SmallVector<bool, 16> wanted_;          // by result
  c10::SmallVector<ir::Value, 8> cotangents_;  // likewise
  c10::SmallVector<ir::Value, 4> of_reads_;    // by read
  c10::SmallVector<std::pair<ValueId, ir::Value>, 1> replaced_;
};

}  // namespace

Segment::Segment() = default;
Segment::~Segment() = default;

Saved build(Fragment& fragment, const Trace& trace, const Segment& s) {
  FragmentBuilder builder(fragment);
  for (const auto& r : s.reads) builder.read(trace.cell(r.id), r.tensor, r.active, r.order ? s.order(r) : Order());
  builder.collect(trace, s.begin, s.end);
  if (builder.too_long()) return {};
  for (const auto& o : s.outputs)
    if (!builder.add_output(o.id == kAbsent ? nullptr : trace.cell(o.id), o.order ? s.order(o) : Order(), o.constant))
      return {};
  return builder.finish(trace);
}

namespace {

// A value by its place in a segment, whatever else the trace holds: counted from the first that is recorded there, or,
// of values from before, in the order in which the segment names them.
struct Place {
  bool is_own;
  uint32_t number;
};
class Places {
 public:
  Places(const Trace& trace, const Segment& s) : first_(trace.entries()[s.begin].first_result) {}
  Place of(ValueId v) {
    if (v >= first_) return {true, v - first_};
    const auto known = std::ranges::find(before_, v);
    if (known != before_.end()) return {false, static_cast<uint32_t>(known - before_.begin())};
    before_.push_back(v);
    return {false, static_cast<uint32_t>(before_.size() - 1)};
  }
  ValueId value(Place p) const { return p.is_own ? first_ + p.number : before_[p.number]; }
  size_t before() const { return before_.size(); }

 private:
  const ValueId first_;
  c10::SmallVector<ValueId, 8> before_;
};

// All that decides what a segment's fragment is, but for run-time numbers, in words.
void describe(const Trace& trace, const Segment& s, Places& places, std::vector<uint64_t>& key) {
  key.clear();
  const auto pair = [&](uint64_t a, uint64_t b) { key.push_back(a | b << 32); };
  const auto type = [&](ValueId v) {
    const ir::Type& t = trace.cell(v)->type;
    pair(static_cast<uint64_t>(t.dtype), t.shape.size());
    for (int64_t n : t.shape) key.push_back(static_cast<uint64_t>(n));
  };
  // Of one from before with its type, where it is named first.
  const auto value = [&](ValueId v, uint64_t what) {
    if (v == kAbsent) return pair(kAbsent, what);
    const size_t before = places.before();
    const Place p = places.of(v);
    pair(p.number << 1 | uint32_t{p.is_own}, what);
    if (places.before() > before) type(v);
  };
  const auto ordered = [&](const Segment::Value& v, uint64_t what) {
    value(v.id, what);
    if (!v.order) return;
    const Order& order = s.order(v);
    for (int64_t d : order) key.push_back(static_cast<uint64_t>(d));
  };
  pair(s.end - s.begin, s.reads.size() | s.outputs.size() << 16);
  for (const auto& r : s.reads) ordered(r, r.tensor | uint64_t{r.active} << 16 | uint64_t{r.order != 0} << 17);
  for (uint32_t i = s.begin; i < s.end; ++i) {
    const Entry& e = trace.entries()[i];
    pair(static_cast<uint64_t>(e.op) | uint64_t{e.results} << 16, e.operand_count);
    for (ValueId v : trace.operands(e)) value(v, 0);
    if (e.op == ir::Op::input || e.op == ir::Op::scalar) {  // their places in the trace are no matter
      type(e.first_result);
      continue;
    }
    pair(e.attr_count, 0);
    for (int64_t a : trace.attrs(e)) key.push_back(static_cast<uint64_t>(a));
  }
  for (const auto& o : s.outputs) ordered(o, uint64_t{o.constant} | uint64_t{o.order != 0} << 1);
}

// Fragments of segments that were equal to this, without values. Loops and steps that come again settle the same ones.
class KnownFragments {
 public:
  void build(Fragment& fragment, const Trace& trace, const Segment& s) {
    Places places(trace, s);
    describe(trace, s, places, key_);
    uint64_t hash = 0;
    for (uint64_t word : key_) hash = mix(hash, word);
    Known& known = known_[for_lookup(hash) % known_.size()];
    if (known.key != key_) {
      if (!lazy::build(fragment, trace, s).differentiable) return;
      note(known, fragment, trace, s, places);
      return;
    }
    fragment = known.fragment;
    for (const auto& [slot, place] : known.kept)
      fragment.slots[slot].cell = CellRef::share(trace.cell(places.value(place)));
    for (const auto& [slot, entry] : known.numbers) fragment.slots[slot].bits = number(trace, s.begin + entry);
  }

 private:
  struct Known {
    std::vector<uint64_t> key;
    Fragment fragment;
    std::vector<std::pair<uint16_t, Place>> kept;
    std::vector<std::pair<uint16_t, uint32_t>> numbers;  // entries, counted from the first
  };
  static int64_t number(const Trace& trace, uint32_t entry) {
    return trace.scalars()[static_cast<size_t>(trace.attrs(trace.entries()[entry])[1])];
  }
  void note(Known& known, const Fragment& fragment, const Trace& trace, const Segment& s, Places& places) {
    Known fresh{key_, fragment, {}, {}};
    const size_t before = places.before();
    std::vector<uint32_t> scalars;
    for (uint32_t i = s.begin; i < s.end; ++i)
      if (trace.entries()[i].op == ir::Op::scalar) scalars.push_back(i - s.begin);
    for (uint16_t i = 0; i < fragment.slots.size(); ++i) {
      const Fragment::Slot& slot = fragment.slots[i];
      // In the order in which they were collected.
      if (slot.from == Fragment::Slot::From::Number) {
        if (fresh.numbers.size() == scalars.size()) return;
        fresh.numbers.emplace_back(i, scalars[fresh.numbers.size()]);
      }
      if (!slot.cell) continue;
      fresh.kept.emplace_back(i, places.of(slot.cell->id));
      fresh.fragment.slots[i].cell = {};
    }
    // What the segment does not name the key does not tell apart.
    if (places.before() == before && fresh.numbers.size() == scalars.size()) known = std::move(fresh);
  }

  std::array<Known, 1024> known_;
  std::vector<uint64_t> key_;  // of the segment that is asked for
};

}  // namespace

void Segment::settle(const Trace& trace) {
  if (fragment) return;
  static auto* known = new KnownFragments;
  fragment = std::make_unique<Fragment>();
  known->build(*fragment, trace, *this);
  if (begin < trace.lines.size()) fragment->kept = KeptHistory(trace.lines[begin]);
}

void differentiate(Recording& r, const Segment& s, std::span<const ir::Value> cotangents, uint64_t needs,
                   std::span<ir::Value> out, std::span<const Replaced> replaced, bool gives_zeros) {
  if (s.fragment) return differentiate(r, *s.fragment, cotangents, needs, out, replaced, gives_zeros);
  LAZULI_CHECK(s.epoch == r.trace().epoch(), "a segment outlived its trace");
  InPlace(r, r.trace(), s, needs, replaced).run(cotangents, out, gives_zeros);
}

}  // namespace lazuli::lazy
