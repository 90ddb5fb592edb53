// Reference mode's recurrent networks: reference_recurrent.cpp.
#pragma once
#include <torch/library.h>

namespace lazuli::backend {

void register_reference_recurrent(torch::Library& m);

}  // namespace lazuli::backend
