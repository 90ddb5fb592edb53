// Norms of vectors, for operators over one tensor and over lists of them.
#pragma once
#include "backend/record/operands.h"

namespace lazuli::backend {

// Whether the norm is one that we compute: the sum of absolute values, or the root of the sum of squares.
bool sums_a_norm(const at::Tensor& x, const c10::Scalar& order, std::optional<c10::ScalarType> type);
// Of order 1 or 2, in x's type.
ir::Value record_norm(lazy::Recording& r, const at::Tensor& x, double order, const ir::Dims& dims, bool keepdim);

}  // namespace lazuli::backend
