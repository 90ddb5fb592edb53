#include "lazy/record/fragment_builder.h"

#include "ir/error.h"
#include "ir/reads.h"

namespace lazuli::lazy {

using Slot = Fragment::Slot;
using Step = Fragment::Step;

uint16_t FragmentBuilder::slot_of(const Cell* cell) const {
  if (!cell) return Fragment::kNone;
  for (size_t i = 0; i < cells_.size(); ++i)
    if (cells_[i] == cell) return static_cast<uint16_t>(i);
  return Fragment::kNone;
}

uint16_t FragmentBuilder::add_slot(Slot&& slot, Cell* cell) {
  f_.slots.push_back(std::move(slot));
  cells_.push_back(cell);
  origins_.push_back({});
  return static_cast<uint16_t>(f_.slots.size() - 1);
}

uint16_t FragmentBuilder::add_step(ir::Op op, std::span<const uint16_t> operands, std::span<const int64_t> attrs) {
  f_.steps.push_back({op, static_cast<uint16_t>(f_.operands.size()), static_cast<uint16_t>(operands.size()), 0, 0,
                      f_.attrs.size(), static_cast<uint32_t>(attrs.size())});
  f_.operands.append(operands.begin(), operands.end());
  f_.attrs.append(attrs);
  return static_cast<uint16_t>(f_.steps.size() - 1);
}

void FragmentBuilder::stands_for(uint16_t slot, const Fragment& earlier, const Slot& origin) {
  origins_[slot] = {&earlier, &origin};
}

uint16_t FragmentBuilder::read(Cell* cell, uint16_t tensor, bool active, const Order& order) {
  Slot s{Slot::From::Input, active, tensor, cell->type};
  s.order = order;
  return add_slot(std::move(s), cell);
}

void FragmentBuilder::collect(const Trace& trace, size_t begin, size_t end) {
  begin_ = std::min(begin_, begin);
  end_ = std::max(end_, end);
  for (size_t i = begin; i < end; ++i) {
    const Entry& e = trace.entries()[i];
    if (e.op == ir::Op::input || e.op == ir::Op::uninitialized) continue;
    if (slot_of(trace.cell(e.first_result)) != Fragment::kNone) continue;  // how a tensor was read
    if (e.op == ir::Op::scalar) {
      Cell* cell = trace.cell(e.first_result);
      Slot s{Slot::From::Number, false, 0, cell->type};
      s.bits = trace.scalars()[static_cast<size_t>(trace.attrs(e)[1])];
      add_slot(std::move(s), cell);
      continue;
    }
    bool active = false;
    c10::SmallVector<uint16_t, 8> operands;
    for (ValueId v : trace.operands(e)) {
      uint16_t slot = Fragment::kNone;
      if (v != kAbsent) {
        Cell* cell = trace.cell(v);
        slot = slot_of(cell);
        // A value from before, or from how a tensor was read: no gradient flows into it.
        if (slot == Fragment::kNone) slot = add_slot(Slot{Slot::From::Input, false, Fragment::kNone, cell->type}, cell);
        active |= f_.slots[slot].active;
      }
      operands.push_back(slot);
    }
    uint16_t step = add_step(e.op, {operands.data(), operands.size()}, trace.attrs(e));
    f_.steps[step].results = static_cast<uint16_t>(f_.slots.size());
    f_.steps[step].result_count = e.results;
    for (uint16_t j = 0; j < e.results; ++j) {
      Cell* cell = trace.cell(e.first_result + j);
      add_slot(Slot{Slot::From::Result, active && ir::is_floating(cell->type.dtype), step, cell->type}, cell);
    }
  }
}

bool FragmentBuilder::add_output(const Cell* cell, const Order& order, bool constant) {
  Fragment::Output o;
  if (cell) {
    o.slot = slot_of(cell);
    o.constant = constant;
    if (o.slot == Fragment::kNone && !constant) return false;
    o.order = order;
    if (!constant && !f_.slots[o.slot].active) o.slot = Fragment::kNone;
  }
  f_.outputs.push_back(std::move(o));
  return true;
}

void FragmentBuilder::keep(const Trace& trace, uint16_t slot) {
  Slot& s = f_.slots[slot];
  if (s.cell || s.source != Fragment::kNone || s.from == Slot::From::Number) return;
  if (s.from == Slot::From::Result && is_recomputed(f_.steps[s.index].op)) {
    auto operands = f_.operands_of(f_.steps[s.index]);
    c10::SmallVector<uint16_t, 4> copy(operands.begin(), operands.end());
    for (uint16_t o : copy) keep(trace, o);
    return;
  }
  saved_.any = true;
  if (s.from == Slot::From::Input && s.index != Fragment::kNone) {
    saved_.inputs |= uint64_t{1} << s.index;
    return keep_input(trace, slot);
  }
  if (const Origin& o = origins_[slot]; o.slot) {
    LAZULI_CHECK(o.slot->cell, "the derivative of a derivative reads a value that was not kept");
    s.cell = o.slot->cell;
    return;
  }
  s.cell = CellRef::share(cells_[slot]);
  for (size_t i = 0; i < f_.outputs.size(); ++i)
    if (f_.outputs[i].slot == slot) saved_.outputs |= uint64_t{1} << i;
}

void FragmentBuilder::keep_input(const Trace& trace, uint16_t slot) {
  if (const Origin& o = origins_[slot]; o.slot) {
    if (o.slot->cell) {
      f_.slots[slot].cell = o.slot->cell;
      return;
    }
    uint16_t source = copy_kept(*o.fragment, o.slot->source);
    f_.slots[slot].source = source;
    return;
  }
  Cell* cell = cells_[slot];
  uint16_t source = keep_as_view(trace, cell);
  if (source == Fragment::kNone)
    f_.slots[slot].cell = CellRef::share(cell);
  else
    f_.slots[slot].source = source;
}

// A tensor that is a window on other memory: that memory is kept, and the views that lead from it. kNone: it is none.
uint16_t FragmentBuilder::keep_as_view(const Trace& trace, Cell* cell) {
  const std::vector<Entry>& entries = trace.entries();
  auto it = std::upper_bound(entries.begin(), entries.end(), cell->id,
                             [](ValueId v, const Entry& e) { return v < e.first_result; });
  const size_t i = static_cast<size_t>(it - entries.begin()) - 1;
  const Entry& e = entries[i];
  if (i < begin_ || i >= end_ || !ir::is_view(e.op) || e.operand_count != 1) return Fragment::kNone;
  Cell* of = trace.cell(trace.operands(e)[0]);
  uint16_t from = keep_as_view(trace, of);
  if (from == Fragment::kNone) {
    from = add_slot(Slot{Slot::From::Input, false, Fragment::kNone, of->type}, nullptr);
    f_.slots[from].cell = CellRef::share(of);
  }
  uint16_t step = add_step(e.op, {&from, 1}, trace.attrs(e));
  f_.steps[step].results = static_cast<uint16_t>(f_.slots.size());
  f_.steps[step].result_count = 1;
  return add_slot(Slot{Slot::From::Result, false, step, cell->type}, nullptr);
}

// The same from an earlier fragment.
uint16_t FragmentBuilder::copy_kept(const Fragment& earlier, uint16_t slot) {
  const Slot& s = earlier.slots[slot];
  uint16_t from = Fragment::kNone;
  if (s.from == Slot::From::Result) from = copy_kept(earlier, earlier.operands_of(earlier.steps[s.index])[0]);
  Slot copy{s.from, false, Fragment::kNone, s.type};
  copy.cell = s.cell;
  if (s.from == Slot::From::Result) {
    const Step& step = earlier.steps[s.index];
    copy.index = add_step(step.op, {&from, 1}, {ir::numbers(earlier.attrs).data() + step.attrs, step.attr_count});
    f_.steps[copy.index].results = static_cast<uint16_t>(f_.slots.size());
    f_.steps[copy.index].result_count = 1;
  }
  return add_slot(std::move(copy), nullptr);
}

Saved FragmentBuilder::finish(const Trace& trace) {
  c10::SmallVector<bool, 16> reached(f_.slots.size());
  for (size_t i = 0; i < f_.outputs.size(); ++i)
    if (f_.outputs[i].slot != Fragment::kNone && !f_.outputs[i].constant) {
      reached[f_.outputs[i].slot] = true;
      saved_.flowing |= uint64_t{1} << i;
    }
  for (size_t i = f_.steps.size(); i-- > 0;) {
    const Step s = f_.steps[i];
    c10::SmallVector<const ir::Type*, 8> operands, types;
    uint32_t needs = 0;
    bool any = false;
    for (uint16_t j = 0; j < s.result_count; ++j) any |= reached[s.results + j] && f_.slots[s.results + j].active;
    if (!any) continue;
    c10::SmallVector<uint16_t, 8> names(f_.operands_of(s).begin(), f_.operands_of(s).end());
    if (names.size() > 32) return {};
    for (uint16_t j = 0; j < s.result_count; ++j) types.push_back(&f_.slots[s.results + j].type);
    for (size_t j = 0; j < names.size(); ++j) {
      bool there = names[j] != Fragment::kNone;
      operands.push_back(there ? &f_.slots[names[j]].type : nullptr);
      if (!there || !f_.slots[names[j]].active) continue;
      needs |= 1u << j;
      reached[names[j]] = true;
    }
    ir::Reads reads = ir::reads_of_derivative(s.op, {operands.data(), operands.size()}, {types.data(), types.size()},
                                              f_.attrs_of(s), needs);
    if (!reads.exists) return {};
    for (size_t j = 0; j < names.size(); ++j)
      if (reads.operands >> j & 1) keep(trace, names[j]);
    for (uint16_t j = 0; j < s.result_count; ++j)
      if (reads.results >> j & 1) keep(trace, static_cast<uint16_t>(s.results + j));
  }
  for (size_t i = 0; i < reached.size(); ++i)
    if (const Slot& s = f_.slots[i]; reached[i] && s.from == Slot::From::Input && s.index != Fragment::kNone)
      saved_.reached |= uint64_t{1} << s.index;
  saved_.differentiable = true;
  return saved_;
}

}  // namespace lazuli::lazy
