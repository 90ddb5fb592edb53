#include "lazy/memory/backing_kinds.h"

#include <cstdlib>
#include <string>
#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/util/Exception.h>
#include "jit/device.h"
#include "jit/devices/cuda/device.h"

namespace lazuli::lazy {
namespace {

const BackingKind kKinds[] = {
    {
        .name = "cuda",
        .type = c10::kCUDA,
        .is_here = [] { return at::hasCUDA() && at::detail::getCUDAHooks().deviceCount() > 0; },
        .code = [](c10::DeviceIndex index) -> jit::Device& { return jit::cuda_device(index); },
        .traits =
            {
                .shares_host_memory = false,
                .overlaps_host = true,
                .has_host_kernels = false,
                .planned_before_parts = 4,
                .has_fused_attention = true,
                .has_tensor_cores = true,
                .convolves_float64 = true,
                .asserts_in_kernels = true,
            },
    },
    {
        .name = "cpu",
        .type = c10::kCPU,
        .is_here = [] { return true; },
        .code = [](c10::DeviceIndex) -> jit::Device& { return jit::cpu_device(); },
        .traits =
            {
                .shares_host_memory = true,
                .overlaps_host = false,
                .has_host_kernels = true,
                .planned_before_parts = 0,
                .has_fused_attention = false,
                .has_tensor_cores = false,
                .convolves_float64 = false,
                .asserts_in_kernels = false,
            },
    },
};

}  // namespace

const BackingKind& choose_backing() {
  const char* given = std::getenv("LAZULI_BACKING");
  const std::string wanted = given ? given : "";
  for (const BackingKind& kind : kKinds) {
    if (!wanted.empty() && wanted != kind.name) continue;
    if (kind.is_here()) return kind;
    TORCH_CHECK(wanted.empty(), "LAZULI_BACKING=", wanted, ", but torch finds no ", c10::DeviceTypeName(kind.type),
                " device here");
  }
  TORCH_CHECK(false, "LAZULI_BACKING takes cpu or cuda, not ", wanted);
}

}  // namespace lazuli::lazy
