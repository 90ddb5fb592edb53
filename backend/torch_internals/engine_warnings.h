// What a run of torch's engine has warned of. The engine collects it and says it on the caller's thread. Who runs a
// graph in the engine's place has to do the same, and torch exports no way to do that.
#pragma once
#include <vector>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/utils/warnings.h>

namespace lazuli::backend {

std::vector<c10::Warning> take_warnings(torch::autograd::utils::DelayWarningHandler& from);

}  // namespace lazuli::backend
