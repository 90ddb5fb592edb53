#include "lazy/record/fragment.h"

#include "ir/error.h"
#include "lazy/record/tape.h"
#include "lazy/trace/freeze.h"

namespace lazuli::lazy {
namespace {

using Slot = Fragment::Slot;
using Step = Fragment::Step;

// Records a fragment's derivative. Derivatives name the fragment's values without asking for them: such a name becomes
// a value of the trace when an op reads it.
class Backward final : public ir::Builder {
 public:
  Backward(Recording& r, const Fragment& f) : r_(r), f_(f), values_(f.slots.size()), cotangents_(f.slots.size()) {}

  using Builder::emit;
  ir::Value emit(ir::Op op, std::span<const ir::Value> inputs, ir::Attrs attrs,
                 std::span<const ir::Type> types) override {
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
  void replace(const Replaced& by) {
    if (replaced_.empty()) replaced_.resize(f_.slots.size());
    for (size_t i = 0; by.input && i < f_.slots.size(); ++i)
      if (f_.slots[i].from == Slot::From::Input && f_.slots[i].index == by.index)
        replaced_[i] = ordered(by.value, f_.slots[i].order);
    if (!by.input && f_.outputs[by.index].slot != Fragment::kNone)
      replaced_[f_.outputs[by.index].slot] = ordered(by.value, f_.outputs[by.index].order);
  }
  ir::Value ordered(ir::Value v, const Order& order) { return order.empty() ? v : r_.permute(v, order); }
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
    const ir::Value replaced = replaced_.empty() ? ir::Value{} : replaced_[slot];
    if (!replaced && is_stale(slot)) return v = recomputed(slot);
    if (replaced || s.cell || s.source != Fragment::kNone) {
      v = replaced ? replaced : s.cell ? r_.cell_value(*s.cell) : value(s.source);
      if (Tape* tape = Tape::current()) v = tape->read_earlier(r_, slot, v);
      return v;
    }
    LAZULI_CHECK(s.from == Slot::From::Result, "a derivative reads an operand that was not kept");
    const ir::Op op = f_.steps[s.index].op;
    LAZULI_CHECK(is_recomputed(op),
                 "the derivative of " + std::string(ir::name(op)) + " reads a value that was not kept");
    return v = recomputed(slot);
  }

  ir::Value recomputed(uint16_t slot) {
    const Slot& s = f_.slots[slot];
    const Step& step = f_.steps[s.index];
    c10::SmallVector<ir::Value, 2> inputs;
    for (uint16_t o : f_.operands_of(step)) inputs.push_back(value(o));
    std::span<const ir::Type> types;
    if (ir::takes_types(step.op)) types = {&s.type, 1};
    return r_.emit(step.op, std::span<const ir::Value>(inputs.data(), inputs.size()), f_.attrs_of(step), types);
  }

  // Whether it is an intermediate value that was computed from an operand that was replaced.
  bool is_stale(uint16_t slot) const {
    const Slot& s = f_.slots[slot];
    if (replaced_.empty() || s.from != Slot::From::Result || !follows_replaced(f_.steps[s.index].op)) return false;
    if (std::ranges::any_of(f_.outputs, [&](const auto& o) { return o.slot == slot; })) return false;
    bool any = false;
    for (uint16_t o : f_.operands_of(f_.steps[s.index])) {
      if (o == Fragment::kNone || !is_known(o)) return false;
      any |= replaced_[o] || is_stale(o);
    }
    return any;
  }
  bool is_known(uint16_t slot) const {
    const Slot& s = f_.slots[slot];
    return replaced_[slot] || s.cell || s.source != Fragment::kNone || s.from == Slot::From::Number || is_stale(slot);
  }

  Recording& r_;
  const Fragment& f_;
  c10::SmallVector<ir::Value, 4> values_, cotangents_;
  std::vector<ir::Value> replaced_;  // by slot; empty: none is
};

}  // namespace

ir::Attrs Fragment::attrs_of(const Step& s) const {
  return unpack({ir::numbers(attrs).data() + s.attrs, s.attr_count}, s.op);
}

void differentiate(Recording& r, const Fragment& f, std::span<const ir::Value> cotangents, uint64_t needs,
                   std::span<ir::Value> out, std::span<const Replaced> replaced, bool gives_zeros) {
  Backward b(r, f);
  for (const Replaced& by : replaced) b.replace(by);
  for (size_t i = 0; i < f.outputs.size(); ++i) {
    const auto& o = f.outputs[i];
    if (o.slot == Fragment::kNone || o.constant || !cotangents[i]) continue;
    b.add(o.slot, b.ordered(cotangents[i], o.order));
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
    if (!g && !gives_zeros) continue;
    if (!g) g = r.full(s.type.shape, 0, s.type.dtype);
    if (!s.order.empty()) g = r.permute(g, inverse_of(s.order));
    out[s.index] = out[s.index] ? r.add(out[s.index], g) : g;
  }
}

}  // namespace lazuli::lazy
