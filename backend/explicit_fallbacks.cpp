// Operators for which torch has a kernel for every device that is none for ours: it looks for the device among those that
// torch knows, reads memory by its address, checks less than the CPU's own kernel does, writes nothing, or has results of
// other shapes. They get the fallback by name.
#include "backend/dispatch.h"
#include "backend/registration.h"

namespace lazuli::backend {

void register_explicit_fallbacks(torch::Library& m) {
  for (const char* name :
       {"_grid_sampler_2d_cpu_fallback", "_grid_sampler_2d_cpu_fallback.out", "_grid_sampler_2d_cpu_fallback_backward", "addr_",
        "addr.out", "all.dims_out", "any.dims_out", "conj_physical_", "mode.values", "range.out_", "_stack.out"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

}  // namespace lazuli::backend
