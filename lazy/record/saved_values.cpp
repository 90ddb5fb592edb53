#include "lazy/record/saved_values.h"

#include <array>
#include <unordered_map>
#include "ir/reads.h"

namespace lazuli::lazy {
namespace {

// A value's place in the segment: the same number for the same role, whatever else the trace holds.
uint64_t place(const Segment& s, ValueId v, ValueId first) {
  if (v >= first) return v == kAbsent ? 0xfffff : 0x10000 + (v - first);  // recorded here
  for (size_t i = 0; i < s.reads.size(); ++i)
    if (s.reads[i].id == v) return 1 + i;
  return 0xffffe;  // from before
}

// Of an op that is one entry over the tensors in the order in which they were read, as most are: everything in one
// word, at less than half the cost of the key of any segment. 0: it is another, or shapes have a say.
uint64_t short_key_of(const Trace& trace, const Segment& s) {
  const Entry& e = trace.entries()[s.begin];
  const size_t n = e.operand_count;
  if (s.end - s.begin != 1 || s.reads.size() != n || n > 4 || e.results != 1 || s.outputs.size() != 1 ||
      s.outputs[0].id != e.first_result || s.outputs[0].constant || !ir::reads_alike_for_all_shapes(e.op))
    return 0;
  auto dtype_of = [&](ValueId v) { return static_cast<uint64_t>(trace.cell(v)->type.dtype); };
  const auto operands = trace.operands(e);
  uint64_t key = static_cast<uint64_t>(e.op) << 8 | n << 4 | dtype_of(e.first_result);
  for (size_t i = 0; i < n; ++i) {
    const Segment::Value& r = s.reads[i];
    if (r.id != operands[i] || r.tensor >= 8) return 0;
    key = key << 8 | uint64_t{r.tensor} << 5 | uint64_t{r.active} << 4 | dtype_of(r.id);
  }
  return key;
}

// The words of the key of any other segment.
void describe(const Trace& trace, const Segment& s, std::vector<uint64_t>& key) {
  key.assign(1, uint64_t{s.end - s.begin} | uint64_t{s.reads.size()} << 32);
  const ValueId first = trace.entries()[s.begin].first_result;
  for (const auto& r : s.reads)
    key.push_back(r.tensor | uint64_t{r.active} << 16 | (r.id >= first ? uint64_t{r.id - first} + 1 : 0) << 32);
  // A value's place, with its element type where it has one.
  auto add = [&](ValueId v, bool shape) {
    const Cell* cell = v == kAbsent ? nullptr : trace.cell(v);
    key.push_back(place(s, v, first) | (cell ? uint64_t{1} + static_cast<uint64_t>(cell->type.dtype) : 0) << 32);
    if (!shape || !cell) return;
    key.push_back(cell->type.shape.size());
    for (int64_t n : cell->type.shape) key.push_back(static_cast<uint64_t>(n));
  };
  for (uint32_t i = s.begin; i < s.end; ++i) {
    const Entry& e = trace.entries()[i];
    const bool by_shape = !ir::reads_alike_for_all_shapes(e.op);
    key.push_back(static_cast<uint64_t>(e.op) | uint64_t{e.results} << 16 | uint64_t{e.operand_count} << 32);
    for (ValueId v : trace.operands(e)) add(v, by_shape);
    for (uint16_t j = 0; j < e.results; ++j) add(e.first_result + j, by_shape);
    if (!by_shape || ir::is_leaf(e.op)) continue;
    key.push_back(e.attr_count);
    for (int64_t a : trace.attrs(e)) key.push_back(static_cast<uint64_t>(a));
  }
  for (const auto& o : s.outputs) key.push_back(place(s, o.id, first) | uint64_t{o.constant} << 32);
}

Saved find(const Trace& trace, const Segment& s) {
  Fragment trial;
  return build(trial, trace, s);
}

}  // namespace

const Saved& saved_by(const Trace& trace, const Segment& s, Saved& own) {
  struct Answer {
    std::vector<uint64_t> key;
    Saved saved;
  };
  // There are as many short keys as ops and element types; of the others, which shapes may be part of, the latest.
  struct Known {
    std::unordered_map<uint64_t, Saved> brief;
    std::array<std::pair<uint64_t, const Saved*>, 256> recent;
    std::array<Answer, 4096> others;
    std::vector<uint64_t> words;  // of the key that is asked for
  };
  static auto* known = new Known{};
  if (const uint64_t key = short_key_of(trace, s)) {
    auto& [key_here, saved] = known->recent[mix(0, key) % known->recent.size()];
    if (saved && key_here == key) return *saved;
    auto it = known->brief.find(key);
    if (it == known->brief.end()) it = known->brief.emplace(key, find(trace, s)).first;
    key_here = key;
    saved = &it->second;
    return *saved;
  }
  std::vector<uint64_t>& key = known->words;
  describe(trace, s, key);
  uint64_t hash = 0;
  for (uint64_t word : key) hash = mix(hash, word);
  Answer& a = known->others[for_lookup(hash) % known->others.size()];
  if (a.key != key) {
    const Saved saved = find(trace, s);
    a = {key, saved};
  }
  return own = a.saved;
}

}  // namespace lazuli::lazy
