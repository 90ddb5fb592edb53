// Checks of numbers that run with the kernels.
#pragma once
#include "ir/requirement.h"
#include "lazy/record/recording.h"

namespace lazuli::backend {

// x, whose elements need `holds` (a bool of its shape): an error when it runs otherwise.
ir::Value required(lazy::Recording& r, ir::Value x, ir::Value holds, ir::Requirement what);
at::Tensor required(const at::Tensor& x, const at::Tensor& holds, ir::Requirement what);

}  // namespace lazuli::backend
