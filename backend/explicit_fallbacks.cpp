// Operators for which torch has a kernel for every device that is none for ours: it looks for the device among those that
// torch knows, reads memory by its address, or checks less than the CPU's own kernel does. They get the fallback by name.
#include "backend/dispatch.h"
#include "backend/registration.h"

namespace lazuli::backend {

void register_explicit_fallbacks(torch::Library& m) {
  for (const char* name :
       {"_grid_sampler_2d_cpu_fallback", "_grid_sampler_2d_cpu_fallback.out", "_grid_sampler_2d_cpu_fallback_backward",
        "_saturate_weight_to_fp16", "addr_", "addr.out", "all.dims_out", "any.dims_out", "conj_physical_", "kaiser_window",
        "kaiser_window.out", "kaiser_window.periodic", "kaiser_window.periodic_out", "kaiser_window.beta",
        "kaiser_window.beta_out", "ldexp.Tensor", "ldexp.out", "ldexp_", "mode.values"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

}  // namespace lazuli::backend
