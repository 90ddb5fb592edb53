// Makes fragments (lazy/record/fragment.h) from entries of a trace.
#pragma once
#include "lazy/record/fragment.h"
#include "lazy/trace/trace.h"

namespace lazuli::lazy {

// Which tensors of an op its derivative reads, by number, and whether it keeps any value at all.
struct Saved {
  uint64_t inputs = 0;
  uint64_t outputs = 0;
  uint64_t flowing = 0;  // outputs through which gradients flow
  uint64_t reached = 0;  // inputs that they flow to
  bool any = false;
  bool differentiable = false;  // false: the rest says nothing
};

class FragmentBuilder {
 public:
  explicit FragmentBuilder(Fragment& fragment) : f_(fragment) {}

  // A tensor's value that the op reads; null: none in the trace. Returns its slot.
  uint16_t read(Cell* cell, uint16_t tensor, bool active, const Order& order);
  uint16_t slot_of(const Cell* cell) const;
  // What the op recorded.
  void collect(const Trace& trace, size_t begin, size_t end);
  // A result: the value that it holds, in this order; null: no gradient flows from it. False when nobody recorded it.
  bool add_output(const Cell* cell, const Order& order, bool constant = false);
  // Ends building: keeps what the derivative reads.
  Saved finish(const Trace& trace);

  // For derivatives of derivatives: the slot stands for one of an earlier fragment, which kept its value.
  void stands_for(uint16_t slot, const Fragment& earlier, const Fragment::Slot& origin);
  // Steps of the earlier fragment become this one's, from their inputs on; `adjust` gives an input its number and says
  // whether gradients flow through it. Returns the slot for `slot`, whose value is in `cell`.
  template <class F>
  uint16_t import(const Fragment& earlier, uint16_t slot, Cell* cell, F&& adjust);
  bool too_long() const { return f_.slots.size() > Fragment::kNone / 2; }

 private:
  uint16_t add_slot(Fragment::Slot&& slot, Cell* cell);
  uint16_t add_step(ir::Op op, std::span<const uint16_t> operands, std::span<const int64_t> attrs);
  void keep(const Trace& trace, uint16_t slot);
  void keep_input(const Trace& trace, uint16_t slot);
  uint16_t keep_as_view(const Trace& trace, Cell* cell);
  uint16_t copy_kept(const Fragment& earlier, uint16_t slot);

  struct Origin {
    const Fragment* fragment = nullptr;
    const Fragment::Slot* slot = nullptr;
  };
  Fragment& f_;
  size_t begin_ = SIZE_MAX, end_ = 0;    // entries collected
  c10::SmallVector<Cell*, 8> cells_;     // by slot: whose value it is; null: nobody's in this trace
  c10::SmallVector<Origin, 8> origins_;  // by slot
  c10::SmallVector<std::pair<uint16_t, uint16_t>, 4> imported_;
  Saved saved_;
};

// The whole of it, from what a segment of this trace notes.
Saved build(Fragment& fragment, const Trace& trace, const Segment& s);

template <class F>
uint16_t FragmentBuilder::import(const Fragment& earlier, uint16_t slot, Cell* cell, F&& adjust) {
  using Slot = Fragment::Slot;
  for (auto [from, to] : imported_)
    if (from == slot) return to;
  const Slot& s = earlier.slots[slot];
  auto copy_of = [](const Slot& s) {
    Slot copy{s.from, s.active, s.index, s.type};
    copy.bits = s.bits;
    copy.order = s.order;
    return copy;
  };
  auto add = [&](uint16_t from, Slot&& copy, Cell* cell) {
    uint16_t to = add_slot(std::move(copy), cell);
    stands_for(to, earlier, earlier.slots[from]);
    imported_.push_back({from, to});
    return to;
  };
  if (s.from != Slot::From::Result) {
    Slot copy = copy_of(s);
    adjust(copy);
    return add(slot, std::move(copy), s.from == Slot::From::Number ? nullptr : cell);
  }
  const Fragment::Step& step = earlier.steps[s.index];
  c10::SmallVector<uint16_t, 4> operands;
  for (uint16_t o : earlier.operands_of(step))
    operands.push_back(o == Fragment::kNone ? o : import(earlier, o, earlier.slots[o].cell.get(), adjust));
  uint16_t number = add_step(step.op, {operands.data(), operands.size()},
                             {ir::numbers(earlier.attrs).data() + step.attrs, step.attr_count});
  f_.steps[number].results = static_cast<uint16_t>(f_.slots.size());
  f_.steps[number].result_count = step.result_count;
  uint16_t result = Fragment::kNone;
  for (uint16_t i = 0; i < step.result_count; ++i) {
    uint16_t from = static_cast<uint16_t>(step.results + i);
    Slot copy = copy_of(earlier.slots[from]);
    copy.index = number;
    uint16_t to = add(from, std::move(copy), from == slot ? cell : earlier.slots[from].cell.get());
    if (from == slot) result = to;
  }
  return result;
}

}  // namespace lazuli::lazy
