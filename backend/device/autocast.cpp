// Autocast with torch's own cast lists for CUDA, registered for this device's autocast key.
#include <ATen/autocast_mode.h>
#include <torch/headeronly/version.h>
#include <torch/library.h>
#include "backend/record/registration.h"
#include "lazy/memory/backing.h"
#include "lazy/support/config.h"

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

#define LAZULI_LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define LAZULI_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define LAZULI_FP32_OPT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define LAZULI_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)

namespace at::autocast {
namespace {

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  if (lazuli::lazy::is_reference_mode() && lazuli::lazy::choose_backing().traits.has_host_kernels)
    return lazuli::backend::register_reference_autocast(m);
  AT_FORALL_LOWER_PRECISION_FP(LAZULI_LOWER)
  AT_FORALL_FP32(LAZULI_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(LAZULI_FP32_OPT)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(LAZULI_PROMOTE)
  // CUDA's lists lack it: there it asks log_softmax for its logits' type, and bfloat16 log-probabilities leave the loss
  // two digits. The host's list has it. The result is float32 with and without.
  LAZULI_FP32(cross_entropy_loss)
#if TORCH_VERSION_MINOR >= 14  // CUDA has it, but in no list
  LAZULI_FP32(linalg_matrix_sqrth)
#endif
}

}  // namespace
}  // namespace at::autocast
