#include "lazy/record/block.h"

#include <algorithm>
#include <utility>

namespace lazuli::lazy {
namespace {

// Where an entry's attributes say which input or run-time number it is: after the list's length.
constexpr size_t kOrdinal = 1;

ValueId code_of(Block::Ref r) { return r.is_input ? kAbsent - 1 - r.index : r.index; }

}  // namespace

std::optional<Block::Ref> Block::ref(const Trace::Place& begin, std::span<const ValueId> inputs, ValueId v) {
  if (v >= begin.values) return Ref{false, static_cast<uint32_t>(v - begin.values)};
  const auto found = std::ranges::find(inputs, v);
  if (found == inputs.end()) return {};
  return Ref{true, static_cast<uint32_t>(found - inputs.begin())};
}

std::optional<Block> Block::take(const Trace& trace, const Trace::Place& begin, std::span<const ValueId> inputs,
                                 std::string& why) {
  const auto refused = [&](std::string text) {
    why = std::move(text);
    return std::nullopt;
  };
  Block b;
  std::vector<size_t> number_of(trace.value_count() - begin.values);  // of values that are numbers
  for (size_t i = begin.entries; i < trace.size(); ++i) {
    Entry e = trace.entries()[i];
    if (e.op == ir::Op::input) return refused("it reads a tensor that is no input");
    if (e.op == ir::Op::uninitialized) return refused("it reads memory that was never written");
    for (ValueId v : trace.operands(e)) {
      const auto r = v == kAbsent ? std::nullopt : ref(begin, inputs, v);
      if (!r && v != kAbsent) return refused("it reads a value that is no input");
      b.code_.operands.push_back(r ? code_of(*r) : kAbsent);
    }
    const std::span<const int64_t> attrs = trace.attrs(e);
    b.code_.attrs.insert(b.code_.attrs.end(), attrs.begin(), attrs.end());
    if (e.op == ir::Op::scalar) {
      number_of[e.first_result - begin.values] = b.numbers_.size();
      b.numbers_.push_back(trace.scalars()[static_cast<size_t>(attrs[kOrdinal])]);
    }
    e.operand_begin -= static_cast<uint32_t>(begin.operands);
    e.attr_begin -= static_cast<uint32_t>(begin.attrs);
    e.first_result -= static_cast<ValueId>(begin.values);
    b.code_.entries.push_back(e);
    b.lines_.push_back(i < trace.lines.size() ? trace.lines[i] : 0);
  }
  for (size_t v = begin.values; v < trace.value_count(); ++v) {
    const Cell* cell = trace.cell(static_cast<ValueId>(v));
    if (!cell) return refused("it has a value without a type");
    b.code_.types.push_back(cell->type);
  }
  for (uint32_t seam : trace.seams())
    if (seam >= begin.entries) b.code_.seams.push_back(seam - static_cast<uint32_t>(begin.entries));
  for (const Trace::Draw& d : trace.draws) {
    if (d.seed < begin.values) continue;
    if (!d.is_default) return refused("it draws random numbers of a generator that is not the default one");
    b.draws_.push_back({number_of[d.seed - begin.values], number_of[d.offset - begin.values], d.count});
  }
  return b;
}

std::vector<int64_t> Block::external_calls() const {
  std::vector<int64_t> calls;
  for (const Entry& e : code_.entries)
    if (e.op == ir::Op::external) calls.push_back(code_.attrs[e.attr_begin + kOrdinal]);
  return calls;
}

Trace::Excerpt Block::at(const Trace& trace, std::span<const ValueId> inputs) const {
  Trace::Excerpt e = code_;
  const Trace::Place begin = trace.place();
  e.begin = begin;
  for (ValueId& v : e.operands) {
    if (v == kAbsent) continue;
    const ValueId input = kAbsent - 1 - v;
    v = input < inputs.size() ? inputs[input] : v + static_cast<ValueId>(begin.values);
  }
  auto number = static_cast<int64_t>(trace.scalars().size());
  uint64_t hash = begin.hash;
  e.hashes.reserve(e.entries.size());
  for (Entry& entry : e.entries) {
    if (entry.op == ir::Op::scalar) e.attrs[entry.attr_begin + kOrdinal] = number++;
    hash = Trace::hash_after(hash, entry, {e.operands.data() + entry.operand_begin, entry.operand_count},
                             {e.attrs.data() + entry.attr_begin, entry.attr_count});
    e.hashes.push_back(hash);
    entry.operand_begin += static_cast<uint32_t>(begin.operands);
    entry.attr_begin += static_cast<uint32_t>(begin.attrs);
    entry.first_result += static_cast<ValueId>(begin.values);
  }
  return e;
}

const Trace::Excerpt& Block::placed(const Trace& trace, std::span<const ValueId> inputs) {
  const Trace::Place place = trace.place();
  const size_t scalars = trace.scalars().size();
  for (const Placed& p : placed_)
    if (p.code.begin == place && p.scalars == scalars && std::ranges::equal(p.inputs, inputs)) return p.code;
  if (placed_.size() < kPlaces) placed_.emplace_back();
  Placed& p = placed_[std::exchange(oldest_, (oldest_ + 1) % kPlaces)];
  p = {at(trace, inputs), scalars, {inputs.begin(), inputs.end()}};
  return p.code;
}

ValueId Block::append(Trace& trace, std::span<const ValueId> inputs, std::span<const int64_t> numbers) {
  const auto first = static_cast<ValueId>(trace.value_count());
  trace.append(placed(trace, inputs), numbers);
  return first;
}

}  // namespace lazuli::lazy
