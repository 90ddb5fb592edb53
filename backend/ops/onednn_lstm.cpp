#ifdef __x86_64__
// What torch's library was built with: a stub is called with as many kernels to choose from.
#define HAVE_AVX2_CPU_DEFINITION
#define HAVE_AVX512_CPU_DEFINITION
#endif
#include "backend/ops/onednn_lstm.h"
#include <algorithm>
#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/RNN.h>
#include <c10/core/GradMode.h>
#include "lazy/memory/backing.h"
#include "lazy/support/config.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using at::TensorList;

bool onednn_takes(c10::ScalarType type) {
  const auto asks = [](const char* name) {
    return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<bool()>().call();
  };
  return type == at::kFloat || (type == at::kBFloat16 && asks("mkldnn::_is_mkldnn_bf16_supported")) ||
         (type == at::kHalf && !at::GradMode::is_enabled() && asks("mkldnn::_is_mkldnn_fp16_supported"));
}

}  // namespace

std::optional<std::tuple<Tensor, Tensor, Tensor>> onednn_lstm(const Tensor& input, TensorList hx, TensorList parameters,
                                                              bool has_biases, int64_t layers, double dropout,
                                                              bool train, bool bidirectional, bool batch_first) {
  if (!lazy::backing().has_host_kernels || input.dim() != 3 || hx.size() != 2 || hx[0].dim() != 3 || hx[1].dim() != 3)
    return {};
  if (!lazy::is_reference_mode()) {
    // Autocast casts what the layers are made of. Operands of other types than the input's are torch's to refuse.
    const auto is_ours = [&](const Tensor& t) {
      return t.is_privateuseone() && t.scalar_type() == input.scalar_type() &&
             !t.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
    };
    if (lazy::config().fallback == "error" || at::autocast::is_autocast_enabled(c10::kPrivateUse1) ||
        !std::ranges::all_of(hx, is_ours) || !std::ranges::all_of(parameters, is_ours) || !is_ours(input))
      return {};
    at::native::check_attributes(input, parameters, hx);
  }
  const bool has_projections = hx[0].size(2) != hx[1].size(2);
  if (!at::globalContext().userEnabledMkldnn() || !onednn_takes(input.scalar_type()) || input.numel() == 0 ||
      has_projections)
    return {};
  Tensor y, hy, cy;
  at::native::lstm_mkldnn_stub(c10::kCPU, y, hy, cy, input, hx, parameters, has_biases, layers, dropout, train,
                               bidirectional, batch_first);
  return std::tuple{y, hy, cy};
}

}  // namespace lazuli::backend
