// Results that keep an operand's memory format (contiguous or channels-last), for the ops that torch answers so.
#pragma once
#include "lazy/record/recording.h"

namespace lazuli::backend {

// The memory order of a result of this rank that follows t's suggested format; empty for row-major.
lazy::Order format_order(const at::Tensor& t);
inline at::Tensor tensor_in(lazy::Recording& r, ir::Value v, at::ScalarType type, const lazy::Order& order) {
  return r.tensor(order.empty() ? v : r.permute(v, order), type, order);
}

}  // namespace lazuli::backend
