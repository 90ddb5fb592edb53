// The trace as tape: notes what one op records while it lives, for the derivative of that op.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>
#include "lazy/record/fragment_builder.h"
#include "lazy/trace/segment.h"

namespace lazuli::lazy {

// Hears what this thread records while it is the current one.
class Tape {
 public:
  Tape(const Tape&) = delete;
  static Tape* current() { return current_; }

  // A tensor was read as the value v, its dimensions in this order. Returns the value to go on with.
  virtual ir::Value read(Recording& r, const at::Tensor& t, ir::Value v, const Order& order) = 0;
  // A tensor was made that holds v, whose dimensions lie in this order.
  virtual void made(Recording&, const at::Tensor&, ir::Value, const Order&) {}
  // A scope of recording ends, which appended these entries; its lock is held.
  virtual void recorded(Trace& trace, size_t begin, size_t end) = 0;
  // A derivative reads the value of a slot of an earlier op's fragment.
  virtual ir::Value read_earlier(Recording&, uint16_t, ir::Value v) { return v; }

 protected:
  Tape() : outer_(current_) { current_ = this; }
  ~Tape() { current_ = outer_; }

  Tape* const outer_;
  static inline thread_local Tape* current_ [[gnu::tls_model("initial-exec")]] = nullptr;
};

using Tensors = std::span<const at::Tensor* const>;

// Of an op over `inputs` (null: none there), of which gradients are wanted for those that `requires_grad` masks;
// `differentiable` masks the results that may have a gradient.
class OpTape final : public Tape {
 public:
  OpTape(Tensors inputs, uint64_t requires_grad, uint32_t differentiable)
      : inputs_(inputs), requires_grad_(requires_grad), differentiable_(differentiable), segment_(SegmentRef::make()) {}
  ir::Value read(Recording& r, const at::Tensor& t, ir::Value v, const Order& order) override;
  void made(Recording& r, const at::Tensor& t, ir::Value v, const Order& order) override;
  void recorded(Trace& trace, size_t begin, size_t end) override;
  // Ends the note-taking of an op that returned `results`. Null: its derivative cannot be taken from what was recorded;
  // else what that saves, as long as the tape lives.
  const Saved* finish(Tensors results);
  SegmentRef segment() { return std::move(segment_); }

 private:
  // A tensor that the op made, with what it held then.
  struct Made {
    const c10::TensorImpl* tensor;
    const Cell* cell;
  };
  bool is_output(size_t i, c10::ScalarType type) const { return differentiable_ >> i & 1 && c10::isFloatingType(type); }
  bool find_outputs(Tensors results, uint64_t epoch);
  // What is saved, once the segment's outputs are known; for who holds the recorder's lock.
  void settle(Trace& trace);
  // Whether the op returned what it made, and the answer for that is there.
  bool foresaw(Tensors results) const;

  Tensors inputs_;
  uint64_t requires_grad_;
  uint32_t differentiable_;
  uint64_t read_ = 0;  // which tensors were
  SegmentRef segment_;
  c10::SmallVector<Made, 1> made_;
  Saved own_;
  const Saved* saved_ = nullptr;  // once it is known: what many tapes share, or own_
  bool listed_ = false;
};

// Of the derivative of an op, which is an op too: over the gradients, then the tensors of the earlier op, then that
// op's results, the latter two as far as the derivative reads them.
class DerivativeTape final : public Tape {
 public:
  // `inputs`: the gradients, and nulls for the others.
  DerivativeTape(Tensors inputs, uint64_t requires_grad, const Fragment& earlier, uint16_t first_tensor,
                 uint16_t first_result);
  ~DerivativeTape();
  ir::Value read(Recording& r, const at::Tensor& t, ir::Value v, const Order& order) override;
  void recorded(Trace& trace, size_t begin, size_t end) override;
  ir::Value read_earlier(Recording& r, uint16_t slot, ir::Value v) override;
  Saved finish(Tensors results);
  SegmentRef segment() { return std::move(segment_); }

 private:
  ir::Value note(Recording& r, ir::Value v, uint16_t input, const Order& order, const Fragment::Slot* origin);

  Tensors inputs_;
  uint64_t requires_grad_;
  const Fragment& earlier_;
  uint16_t first_tensor_, first_result_;
  SegmentRef segment_;
  FragmentBuilder builder_;
  uint64_t epoch_ = 0;
  bool broken_ = false;
};

}  // namespace lazuli::lazy
