// Whether the derivatives that a trace records are those that eager's autograd takes. A derivative that is wrong in
// itself is computed as it was recorded, so comparing values does not show it. Where a shadow run is on, each op's
// derivative is noted in the trace (Derivative in trace.h): the op's rows are computed once more with torch's operators
// and torch's own autograd above them, in float64, and the gradients compared with what the recorded rows give from the
// same values.
//
// That covers what is differentiated in the trace that recorded it. Views, whose derivative is a few numbers, ops whose
// trace ended before backward, and torch's own formulas, are not looked at.
#pragma once
#include "lazy/shadow/culprit.h"
#include "lazy/trace/trace.h"

namespace lazuli::lazy {

// The derivative of one op, apart from its trace. Values are in float64, whatever the graphs' types are.
struct DerivativeCase {
  Case forward, backward;              // the op's rows, and its derivative's
  std::vector<at::Tensor> cotangents;  // of forward's outputs
  std::vector<int64_t> reads;          // which input of forward each output of backward is the gradient of; -1: none
};
// None as well where torch's autograd cannot go through the rows; `compared` says so.
std::optional<Difference> judge_derivative(const DerivativeCase& c, bool& compared);

struct WrongDerivative {
  uint32_t node = 0;  // of the graph: the op
  ir::Type type;      // of the gradient
  Difference difference;
  DerivativeCase shown;
};

// The first one, in the order of recording. `compared`: how many there were to look at.
std::optional<WrongDerivative> judge_derivatives(const Case& whole, std::span<const Derivative> derivatives,
                                                 int64_t& compared);

}  // namespace lazuli::lazy
