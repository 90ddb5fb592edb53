// Masks as indices. What a mask picks has as many elements as the mask has that are not zero, which only its numbers
// tell: so they are read, once, and where they were found is kept beside the mask (lazy/trace/value_notes.h). With
// these positions, whoever indexes with the mask records an index of integers, in forward and in backward.
#pragma once
#include <ATen/core/Tensor.h>

namespace lazuli::backend {

// Whether the tensor indexes as a mask does.
inline bool is_mask(const at::Tensor& t) { return t.scalar_type() == at::kBool || t.scalar_type() == at::kByte; }

// Where the elements of a tensor of the device are not zero, as a list of int64 that counts them in row-major order.
// It ends the trace if the tensor is pending. On a tape it throws NotTaped if they are not known: who tapes asks first.
at::Tensor positions_of(const at::Tensor& mask);

}  // namespace lazuli::backend
