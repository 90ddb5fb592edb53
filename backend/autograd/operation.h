// What the derivative of one recorded op needs: the entries of the trace that are the op's, and the tensors whose
// values it reads. A step of the recording has one (step.h), and gives it to its autograd node when there is one
// (light_node.h).
#pragma once
#include <ATen/core/Tensor.h>
#include "backend/autograd/view_derivative.h"
#include "lazy/record/recording.h"
#include "lazy/record/tape.h"

namespace lazuli::backend {

// What torch's own node does that a derivative's formula alone does not tell.
struct NodeTraits {
  // It keeps a tensor, whichever operand requires a gradient: once that is let go it cannot run again.
  bool keeps = false;
  // Its derivative is one operator, whose results count as functions of all of its operands: the gradients, and those
  // that `read` masks. What flows back from a result that depends on none of those.
  uint8_t read = 0;
  enum Constant : uint8_t { GivesNothing, GivesZeros } constant = GivesNothing;
  // It keeps these tensors, too: nobody may write them before backward.
  uint8_t watched_inputs = 0, watched_results = 0;
  uint8_t watched_for_themselves = 0;  // inputs, where gradients of themselves are wanted
};

class Operation {
 public:
  using Tensors = lazy::Tensors;

  // `name` lives as long as the program: torch's name for the op's nodes.
  explicit Operation(const char* name) : name_(name) {}
  Operation(const char* name, std::unique_ptr<ViewDerivative> view) : name_(name), view_(std::move(view)) {}
  // Takes what an op over `inputs` recorded, as far as `saved` says that its derivative reads it.
  void note(lazy::SegmentRef segment, const lazy::Saved& saved, Tensors inputs, Tensors results,
            NodeTraits traits = {});

  const char* name() const { return name_; }
  NodeTraits traits() const { return traits_; }
  // Null: the op recorded something, `segment`.
  const ViewDerivative* view() const { return view_.get(); }
  lazy::Segment& segment() const { return *segment_; }
  // Gradients of the inputs that `needs` masks (mask_of), from those of the outputs, as values of the trace.
  void backward(lazy::Recording& r, std::span<const ir::Value> gradients, uint64_t needs,
                std::span<ir::Value> out) const;
  // A tensor for the gradient of an input.
  at::Tensor input_gradient(lazy::Recording& r, size_t input, ir::Value g) const;
  // The same as a fragment, with the values that backward would read now.
  lazy::Fragment lift() const;
  // Throws torch's errors for a second backward without its graph, and for a saved value that was written since.
  void check() const;
  // Whether check() passes and backward reads just what was recorded.
  bool is_unchanged() const;
  // Whether it holds anything for backward alone, or torch's node would; another backward without such things is as
  // good as the first.
  bool keeps() const { return keeps_ && !released_; }
  // Lets go of it; what it is goes to the caller, who destroys it where Python may run.
  Operation release();

  // For a derivative of this op, whose tensors are the gradients, then this op's inputs and, from `first_result` on,
  // its results: what it keeps of those must stay as it was when this op kept it.
  void share_kept(Operation& derivative, uint64_t kept_inputs, size_t gradients, size_t first_result) const;

 private:
  // A tensor whose value backward reads. As in torch's saved variables, an operand is kept itself, so that a new
  // `.data` of it counts, as is a result that has no history; another result is kept without it.
  struct Kept {
    at::Tensor tensor;
    const lazy::Cell* cell;  // what its storage held
    uint32_t version;
    bool input;  // of the op; else its result
    uint16_t index;
  };
  void keep(bool input, size_t index, at::Tensor t);
  // A tensor that torch would keep, and this derivative does not read: only its version counts.
  struct Watched {
    c10::VariableVersion counter;
    uint32_t version;
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
    const lazy::Cell* shows;  // of a result that has no history, which torch would read again; else null
    int flowing;              // which result, if it has a history; else -1
  };
  void watch(const at::Tensor& t, const lazy::Cell* shows, int flowing = -1);
  [[noreturn]] void refuse(const at::Tensor& t, bool input, size_t index, uint32_t now, uint32_t expected) const;
  // Values that were replaced behind the version counter's back.
  c10::SmallVector<lazy::Replaced, 2> replaced(lazy::Recording& r) const;

  const char* name_;
  NodeTraits traits_;
  uint64_t flowing_ = 0;  // results that have a history
  bool keeps_ = false, released_ = false;
  lazy::SegmentRef segment_;
  std::unique_ptr<ViewDerivative> view_;
  c10::SmallVector<Kept, 2> kept_;
  std::vector<Watched> watched_;
};

}  // namespace lazuli::backend
