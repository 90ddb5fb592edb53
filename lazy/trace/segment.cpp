#include "lazy/trace/segment.h"

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

void Segment::settle(const Trace& trace) {
  if (fragment) return;
  fragment = std::make_unique<Fragment>();
  if (begin < trace.lines.size()) fragment->kept = KeptHistory(trace.lines[begin]);
  build(*fragment, trace, *this);
}

void differentiate(Recording& r, const Segment& s, std::span<const ir::Value> cotangents, uint64_t needs,
                   std::span<ir::Value> out, std::span<const Replaced> replaced, bool gives_zeros) {
  if (s.fragment) return differentiate(r, *s.fragment, cotangents, needs, out, replaced, gives_zeros);
  LAZULI_CHECK(s.epoch == r.trace().epoch(), "a segment outlived its trace");
  InPlace(r, r.trace(), s, needs, replaced).run(cotangents, out, gives_zeros);
}

}  // namespace lazuli::lazy
