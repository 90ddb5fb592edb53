// A fragment without the values that its derivative reads, by a number: for who brings those as tensors. So a
// derivative can be an operator's call, with constants and tensors for arguments.
#pragma once
#include <ATen/core/Tensor.h>
#include "lazy/record/fragment.h"

namespace lazuli::lazy {

class Program {
 public:
  // The same number for all fragments that differ in values only. It holds as long as the process.
  static int64_t number_of(const Fragment& f);
  static const Program& at(int64_t number);
  // The values that a fragment keeps, as tensors.
  static std::vector<at::Tensor> values_of(const Fragment& f);

  // Tensors of the op that its derivative has gradients for, as a mask.
  uint64_t inputs() const { return inputs_; }
  // A gradient's type, and the order in which its dimensions lie in memory.
  const ir::Type& gradient_type(size_t input) const { return slot_of(input).type; }
  const Order& gradient_order(size_t input) const { return slot_of(input).order; }
  // Gradients of the tensors that `needs` masks.
  std::vector<at::Tensor> differentiate(const std::vector<at::Tensor>& gradients, at::TensorList values,
                                        uint64_t needs) const;

 private:
  explicit Program(Fragment f);
  const Fragment::Slot& slot_of(size_t input) const;
  Fragment fragment_;  // its cells hold nothing
  uint64_t inputs_ = 0;
};

}  // namespace lazuli::lazy
