// The derivative of a view. Making a view records nothing, as the tensor is another window on the same memory; but what
// it does to dimensions is linear, so backward needs no more than the numbers that say what it does. That is so, too,
// where many tensors are joined to one: each gets a piece of the gradient.
#pragma once
#include <algorithm>
#include <ATen/core/Tensor.h>
#include "lazy/record/recording.h"
#include "lazy/support/block_pool.h"

namespace lazuli::backend {

struct ViewDerivative final : lazy::Pooled<ViewDerivative, 128> {
  enum class Form : uint8_t {
    Reshape,
    Broadcast,
    Permute,  // `numbers`: the order of dimensions that undoes it
    Slice,    // `numbers`: dimension, first index, count, step; the result may lack the dimension
    Split,    // `numbers`: dimension, count for each result; likewise
    Join,     // `numbers`: dimension, whether the operands lack it, count for each operand
  };
  Form form;
  ir::Dims sizes;  // of what is viewed, or of the joined
  ir::Dims numbers;

  // The gradient of what is viewed, from those of the results, of which at least one is there.
  ir::Value gradient(lazy::Recording& r, std::span<const ir::Value> results) const;
  // The gradients of what is viewed or joined, as far as `needs` masks them (see mask_of).
  void gradients(lazy::Recording& r, std::span<const ir::Value> results, uint64_t needs,
                 std::span<ir::Value> out) const;
  // Whether it takes neighbours along one dimension. Then the gradient is that of the piece, and zero elsewhere.
  bool is_piece() const { return form == Form::Slice && (numbers[3] == 1 || numbers[2] == 1); }
  ir::Value piece_gradient(lazy::Recording& r, ir::Value result) const { return r.reshape(result, piece(0)); }
  ir::Value spread(lazy::Recording& r, ir::Value piece) const { return gradient(r, {&piece, 1}); }
  // A tensor for that gradient, in memory as torch leaves it: what was permuted stays where it is.
  at::Tensor gradient_tensor(lazy::Recording& r, ir::Value g, c10::ScalarType type) const;
  // The same by torch's operators, which can be differentiated and batched.
  std::vector<at::Tensor> gradients(at::ArrayRef<at::Tensor> results) const;
  size_t operands() const { return form == Form::Join ? numbers.size() - 2 : 1; }

 private:
  at::Tensor gradient(at::ArrayRef<at::Tensor> results) const;
  ir::Dims piece(size_t result) const;
};

// The bit of a mask that stands for an operand; the last one stands for all operands from there on, of which there are
// only where they are joined.
inline uint64_t mask_of(size_t operand) { return uint64_t{1} << std::min<size_t>(operand, 63); }

// Where gradients of pieces belong: ranges along one dimension of a value of these sizes, which do not overlap.
struct Pieces {
  struct Range {
    int64_t begin, end;
  };
  int64_t dim = 0;
  ir::Dims sizes;
  std::vector<Range> ranges;  // ascending

  // The place of a piece among them, if it lies apart from all others; else SIZE_MAX.
  size_t take(const ViewDerivative& piece);
  // Put together, with zeros between; one of a range may be missing, but not all. By range.
  ir::Value whole(lazy::Recording& r, std::span<const ir::Value> pieces) const;
};

}  // namespace lazuli::backend
