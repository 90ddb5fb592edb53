// Operators for which torch has a kernel for every device that is none for ours: it looks for the device among those that
// torch knows, or checks less than the CPU's own kernel does. They get the fallback by name.
#include "backend/dispatch.h"
#include "backend/registration.h"

namespace lazuli::backend {

void register_explicit_fallbacks(torch::Library& m) {
  for (const char* name : {"addr_", "addr.out", "all.dims_out", "any.dims_out", "conj_physical_", "ldexp.Tensor", "ldexp.out", "ldexp_", "mode.values"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

}  // namespace lazuli::backend
