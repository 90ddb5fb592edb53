// Operators for which torch has a kernel for every device that is none for ours: it looks for the device among those
// that torch knows, reads memory by its address, checks less than the CPU's own kernel does, writes nothing, has
// results of other shapes, or makes the results' memory and calls a form that writes there, which ends a trace
// (structured.cpp). They get the fallback by name.
#include "backend/record/dispatch.h"
#include "backend/record/registration.h"

namespace lazuli::backend {
namespace {

// Torch's kernel adds to what it is given.
at::Tensor& linear_combination_out(const at::Tensor& inputs, const at::Tensor& coefficients, at::Tensor& out) {
  fall_back<at::Tensor>("aten::_compute_linear_combination", "out", inputs, coefficients, out.zero_());
  return out;
}

}  // namespace

void register_explicit_fallbacks(torch::Library& m) {
  m.impl("_compute_linear_combination.out", linear_combination_out);
  for (const char* name : {"_grid_sampler_2d_cpu_fallback",
                           "_grid_sampler_2d_cpu_fallback.out",
                           "_grid_sampler_2d_cpu_fallback_backward",
                           "_rowwise_prune",
                           "_sobol_engine_draw",
                           "_sobol_engine_ff_",
                           "_sobol_engine_initialize_state_",
                           "_sobol_engine_scramble_",
                           "_stack.out",
                           "addr_",
                           "addr.out",
                           "all.dims_out",
                           "any.dims_out",
                           "choose_qparams_optimized",
                           "conj_physical_",
                           "cummax",
                           "cummin",
                           "fbgemm_linear_fp16_weight",
                           "fbgemm_linear_fp16_weight.out",
                           "fbgemm_linear_fp16_weight_fp32_activation",
                           "fbgemm_linear_fp16_weight_fp32_activation.out",
                           "fbgemm_linear_int8_weight",
                           "fbgemm_linear_int8_weight_fp32_activation",
                           "fbgemm_linear_quantize_weight",
                           "fbgemm_pack_gemm_matrix_fp16",
                           "fbgemm_pack_quantized_matrix",
                           "fbgemm_pack_quantized_matrix.KN",
                           "kthvalue",
                           "logcumsumexp",
                           "median.dim",
                           "mode.values",
                           "nanmedian.dim",
                           "range.out_"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

// Torchaudio has a loop over samples in operators of torch for devices that it does not know.
TORCH_LIBRARY_IMPL(torchaudio, PrivateUse1, m) {
  m.impl("_lfilter_core_loop", torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

}  // namespace lazuli::backend
