// What one op recorded, without its trace: applications through which gradients flow, with the values that their
// derivatives read. What is to be differentiated after its trace has ended has one.
#pragma once
#include <c10/util/SmallVector.h>
#include "lazy/record/recording.h"
#include "lazy/support/kept_history.h"

namespace lazuli::lazy {

struct Fragment {
  static constexpr uint16_t kNone = UINT16_MAX;
  struct Slot {
    enum class From : uint8_t {
      Input,   // what the op read from a tensor, `index` of its tensors; kNone: some other value from before
      Number,  // a run-time number, `bits`
      Result,  // of step `index`
    } from;
    bool active = false;  // gradients flow through it
    uint16_t index = 0;
    ir::Type type;
    int64_t bits = 0;
    CellRef cell = {};        // kept when a derivative reads it
    uint16_t source = kNone;  // in place of `cell`: the slot of the same value as a view of what is kept
    Order order = {};         // an input's dimensions in this order; empty: as they are
  };
  struct Step {
    ir::Op op;
    uint16_t operands, operand_count;  // in `operands`, kNone for an absent one
    uint16_t results, result_count;    // consecutive slots
    uint32_t attrs, attr_count;
  };
  struct Output {
    uint16_t slot = kNone;  // kNone: no gradient flows from it, and no derivative reads it
    Order order;            // as for an input's slot
    bool constant = false;  // to torch it has no history
  };
  c10::SmallVector<Slot, 3> slots;
  c10::SmallVector<Step, 1> steps;
  c10::SmallVector<uint16_t, 4> operands;
  c10::SmallVector<Output, 1> outputs;
  ir::Dims attrs;
  KeptHistory kept = {};

  std::span<const uint16_t> operands_of(const Step& s) const { return {operands.data() + s.operands, s.operand_count}; }
  ir::Attrs attrs_of(const Step& s) const;
};

// A tensor of an op's that shows another value when backward runs than when the op was recorded, though nothing that
// counts as writing happened (`.data`): backward reads the new one, as torch's does.
struct Replaced {
  bool input;  // of the op; else its result
  uint16_t index;
  ir::Value value;
};

// Cotangents of a fragment's inputs, summed by tensor, from those of its outputs; both in the tensors' logical
// dimensions, those of outputs absent where nothing flows. `needs` masks the op's tensors; one that gradients flow
// to, but that the result does not vary with, gets zeros, as from torch's rules.
void differentiate(Recording& r, const Fragment& f, std::span<const ir::Value> cotangents, uint64_t needs,
                   std::span<ir::Value> out, std::span<const Replaced> replaced = {}, bool gives_zeros = true);

inline Order inverse_of(const Order& order) {
  Order inverse(order.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = static_cast<int64_t>(i);
  return inverse;
}

// What costs nothing to compute again, or is a number: kept as the step rather than as its value.
inline bool is_recomputed(ir::Op op) { return ir::is_view(op) || ir::is_leaf(op); }
// Whether an op's intermediate values follow an operand that was replaced behind the version counter's back: torch
// keeps none, its derivatives compute them from the operands.
inline bool follows_replaced(ir::Op op) { return ir::is_view(op) || ir::is_elementwise(op); }

}  // namespace lazuli::lazy
