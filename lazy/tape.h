// The trace as tape. A Tape notes what one op records while it lives; a Fragment is what remains of that: the
// applications through which gradients flow, with the values that their derivatives read. An autograd node holds one
// and records its backward from it.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>
#include "lazy/recording.h"

namespace lazuli::lazy {

struct Fragment {
  static constexpr uint16_t kNone = UINT16_MAX;
  struct Slot {
    enum class From : uint8_t {
      Input,   // what the op read from a tensor, `index` of its tensors
      Number,  // a run-time number, `bits`
      Result,  // of step `index`
    } from;
    bool active = false;  // gradients flow through it
    uint16_t index = 0;
    ir::Type type;
    int64_t bits = 0;
    CellRef cell;  // kept when a derivative reads it; with `window`, the memory on which that is a window
    int64_t bytes = 0;
    std::unique_ptr<Window> window;
    Order order;  // an input's dimensions in this order; empty: as they are
  };
  struct Step {
    ir::Op op;
    uint16_t operands, operand_count;  // in `operands`, kNone for an absent one
    uint16_t results, result_count;    // consecutive slots
    uint32_t attrs, attr_count;
  };
  struct Output {
    uint16_t slot = kNone;  // kNone: no gradient flows from it
    Order order;            // as for an input's slot
  };
  c10::SmallVector<Slot, 3> slots;
  c10::SmallVector<Step, 1> steps;
  c10::SmallVector<uint16_t, 4> operands;
  c10::SmallVector<Output, 1> outputs;
  ir::Dims attrs;

  std::span<const uint16_t> operands_of(const Step& s) const { return {operands.data() + s.operands, s.operand_count}; }
  ir::Attrs attrs_of(const Step& s) const;
  // Forgets the values that it keeps.
  void release();
  bool keeps_values() const;
};

// Cotangents of a fragment's inputs, summed by tensor, from those of its outputs; both in the tensors' logical
// dimensions, those of outputs absent where nothing flows. `needs` masks the op's tensors; one that gradients flow
// to, but that the result does not vary with, gets zeros, as from torch's rules.
void differentiate(Recording& r, const Fragment& f, std::span<const ir::Value> cotangents, uint64_t needs,
                   std::span<ir::Value> out);

class Tape {
 public:
  // Notes into `fragment` what this thread records from now on, for the op's tensors `inputs` (null: none there).
  // `requires_grad` masks those that gradients are wanted for.
  Tape(Fragment& fragment, std::span<const at::Tensor* const> inputs, uint64_t requires_grad);
  ~Tape();
  Tape(const Tape&) = delete;
  static Tape* current() { return current_; }

  // What is recorded is the derivative of `earlier`: its inputs are this op's from number `inputs` on, its outputs those
  // from `outputs` on. Not all need be read.
  void continues(const Fragment& earlier, uint16_t inputs, uint16_t outputs);
  // For the derivative: the value of a slot of the earlier fragment is read.
  ir::Value read_earlier(Recording& r, uint16_t slot, ir::Value v);

  // For Recording: a tensor was read, a scope of recording ended.
  ir::Value read(Recording& r, const at::Tensor& t, ir::Value v, const Order& order);
  void collect(const Trace& trace, size_t begin, size_t end);

  // Ends the note-taking: keeps what the derivative for these results needs. False when the derivative cannot be taken
  // from what was recorded. `saved` is called for each input (by number) and output (by number) whose value is kept.
  enum class Saved { Input, Output };
  template <class F>
  bool finish(std::span<const at::Tensor* const> results, F&& saved) {
    if (!trim(results)) return false;
    for (auto [kind, index] : kept_) saved(kind, index);
    return true;
  }

 private:
  bool trim(std::span<const at::Tensor* const> results);
  uint16_t slot_of(const Cell* cell) const;
  uint16_t add_slot(Fragment::Slot&& slot, Cell* cell);
  ir::Value note(Recording& r, ir::Value v, uint16_t input, const Order& order, const Fragment::Slot* origin);
  uint16_t import(uint16_t slot, Cell* cell);
  bool find_outputs(std::span<const at::Tensor* const> results);
  void keep(uint16_t slot);

  static inline thread_local Tape* current_ [[gnu::tls_model("initial-exec")]] = nullptr;
  Fragment& f_;
  std::span<const at::Tensor* const> inputs_;
  uint64_t requires_grad_;
  uint64_t read_ = 0;  // of those, what was read
  Tape* const outer_;
  uint64_t epoch_ = 0;
  bool broken_ = false;
  c10::SmallVector<Cell*, 8> cells_;  // by slot: whose value it is; null: nobody's in this trace
  const Fragment* earlier_ = nullptr;
  uint16_t earlier_inputs_ = 0, earlier_outputs_ = 0;
  c10::SmallVector<const Fragment::Slot*, 8> origins_;  // by slot: that of the earlier fragment which it stands for
  c10::SmallVector<std::pair<uint16_t, uint16_t>, 4> imported_;
  c10::SmallVector<std::pair<Saved, uint16_t>, 4> kept_;
};

}  // namespace lazuli::lazy
