#include "lazy/tape.h"

#include "ir/error.h"
#include "ir/reads.h"
#include "lazy/freeze.h"

namespace lazuli::lazy {
namespace {

using Slot = Fragment::Slot;
using Step = Fragment::Step;

// What costs nothing to compute again, or is a number: kept as the step rather than as its value.
bool is_recomputed(ir::Op op) { return ir::is_view(op) || ir::is_leaf(op); }

Order inverse_of(const Order& order) {
  Order inverse(order.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = static_cast<int64_t>(i);
  return inverse;
}

// Records a fragment's derivative. Derivatives name the fragment's values without asking for them: such a name becomes a
// value of the trace when an op reads it.
class Backward final : public ir::Builder {
 public:
  Backward(Recording& r, const Fragment& f) : r_(r), f_(f), values_(f.slots.size()), cotangents_(f.slots.size()) {}

  using Builder::emit;
  ir::Value emit(ir::Op op, std::span<const ir::Value> inputs, ir::Attrs attrs, std::span<const ir::Type> types) override {
    c10::SmallVector<ir::Value, 8> real;
    for (ir::Value v : inputs) real.push_back(resolve(v));
    return r_.emit(op, std::span<const ir::Value>(real.data(), real.size()), std::move(attrs), types);
  }
  const ir::Type& type(ir::Value v) const override { return is_name(v) ? f_.slots[slot(v)].type : r_.type(v); }

  ir::Value resolve(ir::Value v) { return v && is_name(v) ? value(slot(v)) : v; }

  void add(uint16_t slot, ir::Value cotangent) {
    if (!cotangent) return;
    ir::Value& sum = cotangents_[slot];
    sum = sum ? Builder::add(sum, cotangent) : cotangent;
  }
  ir::Value cotangent(uint16_t slot) { return resolve(cotangents_[slot]); }

  void pull(const Step& s, std::span<const bool> wanted) {
    bool any = false;
    c10::SmallVector<ir::Value, 4> results, cotangents;
    for (uint16_t i = 0; i < s.result_count; ++i) {
      uint16_t slot = static_cast<uint16_t>(s.results + i);
      results.push_back(name_of(slot));
      cotangents.push_back(cotangents_[slot]);
      any |= static_cast<bool>(cotangents_[slot]);
    }
    if (!any) return;
    c10::SmallVector<ir::Value, 8> inputs, out(s.operand_count);
    uint32_t needs = 0;
    auto operands = f_.operands_of(s);
    for (size_t i = 0; i < operands.size(); ++i) {
      inputs.push_back(operands[i] == Fragment::kNone ? ir::Value{} : name_of(operands[i]));
      if (operands[i] != Fragment::kNone && wanted[operands[i]]) needs |= 1u << i;
    }
    if (!needs) return;
    ir::Attrs attrs = f_.attrs_of(s);
    ir::vjp(*this, {s.op, {inputs.data(), inputs.size()}, {results.data(), results.size()}, attrs},
            {cotangents.data(), cotangents.size()}, needs, {out.data(), out.size()});
    for (size_t i = 0; i < operands.size(); ++i)
      if (needs >> i & 1) add(operands[i], out[i]);
  }

 private:
  static constexpr uint32_t kNames = 0x80000000;
  static ir::Value name_of(uint16_t slot) { return {kNames | slot, 0}; }
  static bool is_name(ir::Value v) { return v.node & kNames; }
  static uint16_t slot(ir::Value v) { return static_cast<uint16_t>(v.node); }

  ir::Value value(uint16_t slot) {
    ir::Value& v = values_[slot];
    if (v) return v;
    const Slot& s = f_.slots[slot];
    if (s.from == Slot::From::Number) return v = r_.number_bits(s.bits, s.type.dtype);
    if (s.cell) {
      v = s.window ? r_.permute(r_.window(*s.cell, s.bytes, *s.window), s.order) : r_.cell_value(*s.cell);
      if (Tape* tape = Tape::current()) v = tape->read_earlier(r_, slot, v);
      return v;
    }
    LAZULI_CHECK(s.from == Slot::From::Result, "a derivative reads an operand that was not kept");
    const Step& step = f_.steps[s.index];
    LAZULI_CHECK(is_recomputed(step.op), "the derivative of " + std::string(ir::name(step.op)) + " reads a value that was not kept");
    c10::SmallVector<ir::Value, 2> inputs;
    for (uint16_t o : f_.operands_of(step)) inputs.push_back(value(o));
    std::span<const ir::Type> types;
    if (ir::takes_types(step.op)) types = {&s.type, 1};
    return v = r_.emit(step.op, std::span<const ir::Value>(inputs.data(), inputs.size()), f_.attrs_of(step), types);
  }

  Recording& r_;
  const Fragment& f_;
  c10::SmallVector<ir::Value, 4> values_, cotangents_;
};

}  // namespace

ir::Attrs Fragment::attrs_of(const Step& s) const { return unpack({attrs.data() + s.attrs, s.attr_count}, s.op); }

void Fragment::release() {
  for (Slot& s : slots) s.cell = CellRef();
}

bool Fragment::keeps_values() const {
  return std::any_of(slots.begin(), slots.end(), [](const Slot& s) { return static_cast<bool>(s.cell); });
}

void differentiate(Recording& r, const Fragment& f, std::span<const ir::Value> cotangents, uint64_t needs,
                   std::span<ir::Value> out) {
  Backward b(r, f);
  for (size_t i = 0; i < f.outputs.size(); ++i) {
    const auto& o = f.outputs[i];
    if (o.slot == Fragment::kNone || !cotangents[i]) continue;
    b.add(o.slot, o.order.empty() ? cotangents[i] : r.permute(cotangents[i], o.order));
  }
  // Gradients flow through a slot if they are wanted for something that it is computed from.
  c10::SmallVector<bool, 16> wanted(f.slots.size());
  for (size_t i = 0; i < f.slots.size(); ++i)
    wanted[i] = f.slots[i].active && f.slots[i].from == Slot::From::Input && needs >> f.slots[i].index & 1;
  for (const Step& s : f.steps) {
    bool any = false;
    for (uint16_t o : f.operands_of(s)) any |= o != Fragment::kNone && wanted[o];
    for (uint16_t i = 0; i < s.result_count; ++i) wanted[s.results + i] = any && f.slots[s.results + i].active;
  }
  for (size_t i = f.steps.size(); i-- > 0;) b.pull(f.steps[i], {wanted.data(), wanted.size()});
  for (size_t i = 0; i < f.slots.size(); ++i) {
    const Slot& s = f.slots[i];
    if (!wanted[i] || s.from != Slot::From::Input) continue;
    ir::Value g = b.cotangent(static_cast<uint16_t>(i));
    if (!g) g = r.full(s.type.shape, 0, s.type.dtype);
    if (!s.order.empty()) g = r.permute(g, inverse_of(s.order));
    out[s.index] = out[s.index] ? r.add(out[s.index], g) : g;
  }
}

Tape::Tape(Fragment& fragment, std::span<const at::Tensor* const> inputs, uint64_t requires_grad)
    : f_(fragment), inputs_(inputs), requires_grad_(requires_grad), outer_(current_) {
  current_ = this;
}
Tape::~Tape() { current_ = outer_; }

uint16_t Tape::slot_of(const Cell* cell) const {
  if (!cell) return Fragment::kNone;
  for (size_t i = 0; i < cells_.size(); ++i)
    if (cells_[i] == cell) return static_cast<uint16_t>(i);
  return Fragment::kNone;
}

uint16_t Tape::add_slot(Slot&& slot, Cell* cell) {
  f_.slots.push_back(std::move(slot));
  cells_.push_back(cell);
  origins_.push_back(nullptr);
  return static_cast<uint16_t>(f_.slots.size() - 1);
}

ir::Value Tape::read(Recording& r, const at::Tensor& t, ir::Value v, const Order& order) {
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i] && inputs_[i]->is_same(t)) return note(r, v, static_cast<uint16_t>(i), order, nullptr);
  return v;  // an intermediate tensor of the op's
}

ir::Value Tape::note(Recording& r, ir::Value v, uint16_t input, const Order& order, const Slot* origin) {
  Cell* cell = &r.cell(v);
  if (uint16_t known = slot_of(cell); known != Fragment::kNone) {
    const Slot& s = f_.slots[known];
    if (s.from == Slot::From::Input && s.index == input && s.order == order) return v;
    // Two tensors with one value, of which gradients may want only one: the value gets a second name.
    v = r.emit(ir::Op::reshape, {v}, ir::Attrs().add(r.shape(v)));
    cell = &r.cell(v);
  }
  bool active = requires_grad_ >> input & 1 && ir::is_floating(cell->type.dtype);
  if (active) read_ |= uint64_t{1} << input;
  Slot s{Slot::From::Input, active, input, cell->type};
  s.order = order;
  add_slot(std::move(s), cell);
  origins_.back() = origin;
  return v;
}

void Tape::continues(const Fragment& earlier, uint16_t inputs, uint16_t outputs) {
  earlier_ = &earlier;
  earlier_inputs_ = inputs;
  earlier_outputs_ = outputs;
}

ir::Value Tape::read_earlier(Recording& r, uint16_t slot, ir::Value v) {
  if (!earlier_) return v;
  const Slot& s = earlier_->slots[slot];
  for (size_t i = 0; i < earlier_->outputs.size(); ++i)
    if (earlier_->outputs[i].slot == slot)
      return note(r, v, static_cast<uint16_t>(earlier_outputs_ + i), earlier_->outputs[i].order, &s);
  if (s.from == Slot::From::Input) {
    if (s.index != Fragment::kNone) return note(r, v, static_cast<uint16_t>(earlier_inputs_ + s.index), s.order, &s);
    return v;
  }
  if (s.active) import(slot, &r.cell(v));
  return v;
}

// An intermediate value of the earlier op: its steps belong to this one too, from that op's inputs on.
uint16_t Tape::import(uint16_t slot, Cell* cell) {
  for (auto [from, to] : imported_)
    if (from == slot) return to;
  const Slot& s = earlier_->slots[slot];
  auto copy_of = [](const Slot& s) {
    Slot copy{s.from, s.active, s.index, s.type};
    copy.bits = s.bits;
    copy.order = s.order;
    return copy;
  };
  uint16_t result = Fragment::kNone;
  if (s.from == Slot::From::Result) {
    const Step& step = earlier_->steps[s.index];
    c10::SmallVector<uint16_t, 4> operands;
    for (uint16_t o : earlier_->operands_of(step)) operands.push_back(o == Fragment::kNone ? o : import(o, earlier_->slots[o].cell.get()));
    Step own{step.op, static_cast<uint16_t>(f_.operands.size()), step.operand_count, static_cast<uint16_t>(f_.slots.size()),
             step.result_count, f_.attrs.size(), step.attr_count};
    f_.operands.append(operands.begin(), operands.end());
    f_.attrs.append({earlier_->attrs.data() + step.attrs, step.attr_count});
    for (uint16_t i = 0; i < step.result_count; ++i) {
      uint16_t from = static_cast<uint16_t>(step.results + i);
      const Slot& r = earlier_->slots[from];
      Slot copy = copy_of(r);
      copy.index = static_cast<uint16_t>(f_.steps.size());
      uint16_t to = add_slot(std::move(copy), from == slot ? cell : r.cell.get());
      origins_.back() = &r;
      imported_.push_back({from, to});
      if (from == slot) result = to;
    }
    f_.steps.push_back(own);
    return result;
  }
  Slot copy = copy_of(s);
  if (s.from == Slot::From::Input && s.index != Fragment::kNone) copy.index = static_cast<uint16_t>(s.index + earlier_inputs_);
  copy.active = s.active && s.from == Slot::From::Input && requires_grad_ >> copy.index & 1;
  result = add_slot(std::move(copy), s.from == Slot::From::Number ? nullptr : cell);
  origins_.back() = &s;
  imported_.push_back({slot, result});
  return result;
}

void Tape::collect(const Trace& trace, size_t begin, size_t end) {
  if (begin == end) return;
  if (epoch_ && epoch_ != trace.epoch()) broken_ = true;  // ended in between, and its cells with it
  epoch_ = trace.epoch();
  if (broken_) return;
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
    Step step{e.op, static_cast<uint16_t>(f_.operands.size()), static_cast<uint16_t>(e.operand_count), 0, e.results,
              f_.attrs.size(), 0};
    bool active = false;
    for (ValueId v : trace.operands(e)) {
      uint16_t slot = Fragment::kNone;
      if (v != kAbsent) {
        Cell* cell = trace.cell(v);
        slot = slot_of(cell);
        // A value from before, or from how a tensor was read: no gradient flows into it.
        if (slot == Fragment::kNone) {
          Slot s{Slot::From::Input, false, Fragment::kNone, cell->type};
          slot = add_slot(std::move(s), cell);
        }
        active |= f_.slots[slot].active;
      }
      f_.operands.push_back(slot);
    }
    std::span<const int64_t> attrs = trace.attrs(e);
    f_.attrs.append(attrs);
    step.attr_count = static_cast<uint32_t>(attrs.size());
    step.results = static_cast<uint16_t>(f_.slots.size());
    for (uint16_t j = 0; j < e.results; ++j) {
      Cell* cell = trace.cell(e.first_result + j);
      Slot s{Slot::From::Result, active && ir::is_floating(cell->type.dtype), static_cast<uint16_t>(f_.steps.size()), cell->type};
      add_slot(std::move(s), cell);
    }
    f_.steps.push_back(step);
  }
  if (f_.slots.size() > Fragment::kNone / 2) broken_ = true;
}

bool Tape::find_outputs(std::span<const at::Tensor* const> results) {
  for (const at::Tensor* t : results) {
    Fragment::Output o;
    if (t && t->defined() && c10::isFloatingType(t->scalar_type())) {
      Cell* cell = storage_of(*t).cell();
      o.slot = slot_of(cell);
      if (o.slot == Fragment::kNone) return false;
      ir::Dims memory;
      if (!memory_order(t->sizes(), t->strides(), o.order)) return false;
      for (size_t i = 0; i < static_cast<size_t>(t->dim()); ++i) memory.push_back(t->size(o.order.empty() ? static_cast<int64_t>(i) : o.order[i]));
      if (t->storage_offset() != 0 || cell->type.shape != memory || cell->type.dtype != to_ir(t->scalar_type())) return false;
      if (!f_.slots[o.slot].active) o.slot = Fragment::kNone;
    }
    f_.outputs.push_back(std::move(o));
  }
  return true;
}

void Tape::keep(uint16_t slot) {
  Slot& s = f_.slots[slot];
  if (s.cell || s.from == Slot::From::Number) return;
  if (s.from == Slot::From::Result && is_recomputed(f_.steps[s.index].op)) {
    for (uint16_t o : f_.operands_of(f_.steps[s.index])) keep(o);
    return;
  }
  if (const Slot* origin = origins_[slot]) {
    LAZULI_CHECK(origin->cell, "the derivative of a derivative reads a value that was not kept");
    s.cell = origin->cell;
    s.bytes = origin->bytes;
    if (origin->window) s.window = std::make_unique<Window>(*origin->window);
    if (s.from == Slot::From::Input && s.index != Fragment::kNone) kept_.push_back({Saved::Input, s.index});
    return;
  }
  if (s.from == Slot::From::Input && s.index != Fragment::kNone) {
    const at::Tensor& t = *inputs_[s.index];
    LazyStorage& storage = storage_of(t);
    if (storage.cell() != cells_[slot]) {
      s.bytes = static_cast<int64_t>(storage.nbytes());
      s.window = std::make_unique<Window>(Window{t.scalar_type(), at::DimVector(t.sizes()), at::DimVector(t.strides()), t.storage_offset()});
    }
    s.cell = storage.cell_ref();
    kept_.push_back({Saved::Input, s.index});
    return;
  }
  s.cell = CellRef::share(cells_[slot]);
  for (size_t i = 0; i < f_.outputs.size(); ++i)
    if (f_.outputs[i].slot == slot) kept_.push_back({Saved::Output, static_cast<uint16_t>(i)});
}

bool Tape::trim(std::span<const at::Tensor* const> results) {
  if (broken_ || (!earlier_ && requires_grad_ & ~read_) || !find_outputs(results)) return false;
  c10::SmallVector<bool, 16> reached(f_.slots.size());
  for (const auto& o : f_.outputs)
    if (o.slot != Fragment::kNone) reached[o.slot] = true;
  for (size_t i = f_.steps.size(); i-- > 0;) {
    const Step& s = f_.steps[i];
    c10::SmallVector<const ir::Type*, 8> operands, types;
    uint32_t needs = 0;
    bool any = false;
    for (uint16_t j = 0; j < s.result_count; ++j) {
      any |= reached[s.results + j] && f_.slots[s.results + j].active;
      types.push_back(&f_.slots[s.results + j].type);
    }
    if (!any) continue;
    auto names = f_.operands_of(s);
    if (names.size() > 32) return false;
    for (size_t j = 0; j < names.size(); ++j) {
      bool there = names[j] != Fragment::kNone;
      operands.push_back(there ? &f_.slots[names[j]].type : nullptr);
      if (!there || !f_.slots[names[j]].active) continue;
      needs |= 1u << j;
      reached[names[j]] = true;
    }
    ir::Reads reads = ir::reads_of_derivative(s.op, {operands.data(), operands.size()}, {types.data(), types.size()},
                                              f_.attrs_of(s), needs);
    if (!reads.exists) return false;
    for (size_t j = 0; j < names.size(); ++j)
      if (reads.operands >> j & 1) keep(names[j]);
    for (uint16_t j = 0; j < s.result_count; ++j)
      if (reads.results >> j & 1) keep(static_cast<uint16_t>(s.results + j));
  }
  return true;
}

}  // namespace lazuli::lazy
