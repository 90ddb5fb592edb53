// Operators that are recorded as steps, unless the settings say otherwise: torch's names for their nodes, and which of
// their results torch differentiates.
#include "backend/autograd/engine.h"
#include "backend/autograd/light.h"
#include "backend/autograd/nodes_on_demand.h"
#include "backend/autograd/region.h"
#include "backend/torch_internals/version_rules.h"
#include "lazy/support/config.h"

namespace lazuli::backend {
namespace {

template <class Aten>
void light(torch::Library& m, const char* node, uint32_t differentiable = ~0u, uint64_t refused = 0,
           NodeTraits traits = {.keeps = true}) {
  Light<Aten>::implement(m, {node, differentiable, refused, traits});
}

// Of a node that keeps no tensor, or only for some of its operands.
constexpr NodeTraits kUnsaved{};
// Of one that keeps these of its operands and results, besides those that our derivative reads.
constexpr NodeTraits keeping(uint8_t inputs, uint8_t results = 0) {
  return {.keeps = true, .watched_inputs = inputs, .watched_results = results};
}
// Of one whose derivative is one operator of torch's, over these operands.
constexpr NodeTraits whole(uint8_t inputs, NodeTraits::Constant constant, uint8_t results = 0) {
  return {.keeps = true, .read = inputs, .constant = constant, .watched_inputs = inputs, .watched_results = results};
}
template <class Aten>
void light(torch::Library& m, const char* node, NodeTraits traits) {
  Light<Aten>::implement(m, {.name = node, .traits = traits});
}

// Torch's kernel clears what it knows of; the step would keep the graph.
at::Tensor& detach_(c10::DispatchKeySet keys, at::Tensor& self) {
  forget_step(self);
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::detach_", "");
  torch::jit::Stack stack{self};
  call_torch(op, keys, &stack);
  return self;
}

// Torch's kernels look whether a view may be written before they ask the view for its node, which the error names.
void name_node(const at::Tensor& written) {
  if (auto* view = torch::autograd::impl::get_view_autograd_meta(written);
      view && view->get_creation_meta() != torch::autograd::CreationMeta::DEFAULT)
    materialize(written);
}
// Batches come with it in every step: where it has no derivative, only the version is torch's business.
at::Tensor& copy_(c10::DispatchKeySet keys, at::Tensor& self, const at::Tensor& from, bool non_blocking) {
  OpTensors tensors;
  tensors.add(self), tensors.add(from);
  if (!self.is_inference() && tensors.route(keys) == Route::Below) {
    at::AutoDispatchBelowAutograd guard;
    return at::_ops::copy_::redispatch(keys & c10::after_autograd_keyset, self, from, non_blocking);
  }
  name_node(self);
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", "");
  torch::jit::Stack stack{self, from, non_blocking};
  call_torch(op, keys, &stack);
  return self;
}
void write_by_torch(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  name_node(torch::jit::peek(*stack, 0, op.schema().arguments().size()).toTensor());
  call_torch(op, keys, stack);
}

namespace o = at::_ops;

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  // It asks for no history, which a view across a write in place does not have. `.data =` calls it.
  m.impl("_has_compatible_shallow_copy_type", torch::CppFunction::makeFallthrough());
  if (!lazy::config().light_autograd) return;
  install_engine_hook();
  install_hooks({region_of_root, take_root});
  m.impl("detach_", torch::dispatch(c10::DispatchKey::AutogradPrivateUse1, TORCH_FN(detach_)));
  m.impl("copy_", torch::dispatch(c10::DispatchKey::AutogradPrivateUse1, TORCH_FN(copy_)));
  for (const char* name :
       {"set_", "set_.source_Storage", "set_.source_Storage_storage_offset", "set_.source_Tensor",
        "set_.source_Tensor_storage_offset", "acosh_", "asinh_", "atanh_", "igamma_", "igammac_", "nextafter_"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&write_by_torch>());
  // Arithmetic
  light<o::add_Tensor>(m, "AddBackward0", kUnsaved);
  light<o::sub_Tensor>(m, "SubBackward0", kUnsaved);
  light<o::mul_Tensor>(m, "MulBackward0");
  light<o::div_Tensor>(m, "DivBackward0");
  light<o::neg>(m, "NegBackward0", kUnsaved);
  light<o::abs>(m, "AbsBackward0");
  light<o::reciprocal>(m, "ReciprocalBackward0");
  light<o::sqrt>(m, "SqrtBackward0");
  light<o::rsqrt>(m, "RsqrtBackward0");
  light<o::pow_Tensor_Scalar>(m, "PowBackward0", keeping(0b1));
  light<o::exp>(m, "ExpBackward0");
  light<o::log>(m, "LogBackward0");
  light<o::log2>(m, "Log2Backward0");
  light<o::log10>(m, "Log10Backward0");
  light<o::log1p>(m, "Log1PBackward0");
  light<o::sin>(m, "SinBackward0");
  light<o::cos>(m, "CosBackward0");
  light<o::tan>(m, "TanBackward0");
  light<o::asin>(m, "AsinBackward0");
  light<o::acos>(m, "AcosBackward0");
  light<o::atan>(m, "AtanBackward0");
  light<o::sinh>(m, "SinhBackward0");
  light<o::cosh>(m, "CoshBackward0");
  light<o::tanh>(m, "TanhBackward0");
  light<o::asinh>(m, "AsinhBackward0");
  light<o::acosh>(m, "AcoshBackward0");
  light<o::atanh>(m, "AtanhBackward0");
  light<o::hypot>(m, "HypotBackward0");
  light<o::erf>(m, "ErfBackward0");
  light<o::erfc>(m, "ErfcBackward0");
  light<o::lerp_Scalar>(m, "LerpBackward0", kUnsaved);
  light<o::lerp_Tensor>(m, "LerpBackward1", kUnsaved);
  light<o::addcmul>(m, "AddcmulBackward0", kUnsaved);
  light<o::addcdiv>(m, "AddcdivBackward0", keeping(/*the divisor*/ 0b100));
  light<o::rsub_Tensor>(m, "RsubBackward0", kUnsaved);
  light<o::rsub_Scalar>(m, "RsubBackward1", kUnsaved);
  // Bounds
  if (kTiesGoToTheOperand) {
    light<o::clamp_Tensor>(m, "ClampBackward0");
    light<o::clamp>(m, "ClampBackward1");
    light<o::clamp_min>(m, "ClampMinBackward0");
    light<o::clamp_min_Tensor>(m, "ClampMinBackward1");
    light<o::clamp_max>(m, "ClampMaxBackward0");
    light<o::clamp_max_Tensor>(m, "ClampMaxBackward1");
    light<o::fmax>(m, "FmaxBackward0");
    light<o::fmin>(m, "FminBackward0");
  }
  light<o::where_self>(m, "WhereBackward0");
  light<o::masked_fill_Scalar>(m, "MaskedFillBackward0");
  light<o::masked_fill_Tensor>(m, "MaskedFillBackward1");
  light<o::_to_copy>(m, "ToCopyBackward0", kUnsaved);
  light<o::clone>(m, "CloneBackward0", kUnsaved);
  // Activations
  light<o::sigmoid>(m, "SigmoidBackward0");
  light<o::relu>(m, "ReluBackward0");
  light<o::silu>(m, "SiluBackward0");
  light<o::gelu>(m, "GeluBackward0");
  light<o::leaky_relu>(m, "LeakyReluBackward0");
  light<o::hardswish>(m, "HardswishBackward0");
  light<o::hardsigmoid>(m, "HardsigmoidBackward0");
  light<o::mish>(m, "MishBackward0");
  light<o::softplus>(m, "SoftplusBackward0");
  light<o::elu>(m, "EluBackward0");
  light<o::hardshrink>(m, "HardshrinkBackward0");
  light<o::softshrink>(m, "SoftshrinkBackward0");
  light<o::threshold>(m, "ThresholdBackward0");
  light<o::log_sigmoid_forward>(m, "LogSigmoidBackward0", 1, 0, keeping(0, /*the buffer*/ 0b10));
  // Contractions
  light<o::mm>(m, "MmBackward0");
  light<o::bmm>(m, "BmmBackward0");
  light<o::addmm>(m, "AddmmBackward0", kUnsaved);
  light<o::baddbmm>(m, "BaddbmmBackward0", kUnsaved);
  light<o::mv>(m, "MvBackward0");
  light<o::addmv>(m, "AddmvBackward0", kUnsaved);
  light<o::dot>(m, "DotBackward0");
  light<o::vdot>(m, "VdotBackward0");
  light<o::convolution>(m, "ConvolutionBackward0", whole(/*input, weight*/ 0b011, NodeTraits::GivesNothing));
  // Reductions and normalizations
  constexpr uint8_t kStatistics = 0b110;  // of a norm, among its results
  light<o::sum>(m, "SumBackward0", kUnsaved);
  light<o::sum_dim_IntList>(m, "SumBackward1", kUnsaved);
  light<o::mean>(m, "MeanBackward0", kUnsaved);
  light<o::mean_dim>(m, "MeanBackward1", kUnsaved);
  light<o::logsumexp>(m, "LogsumexpBackward0", keeping(0b1, 0b1));
  light<o::prod>(m, "ProdBackward0", keeping(0, /*the product*/ 0b1));
  light<o::prod_dim_int>(m, "ProdBackward1", keeping(0, /*the product*/ 0b1));
  light<o::cumsum>(m, "CumsumBackward0", kUnsaved);
  light<o::cumprod>(m, "CumprodBackward0");
  light<o::_softmax>(m, "SoftmaxBackward0");
  light<o::_log_softmax>(m, "LogSoftmaxBackward0");
  light<o::native_layer_norm>(
      m, "NativeLayerNormBackward0", 1, 0,
      {.keeps = true, .read = 0b11, .watched_inputs = /*bias*/ 0b100, .watched_results = kStatistics});
  light<o::native_group_norm>(m, "NativeGroupNormBackward0", ~0u, 0, keeping(0, kStatistics));
  light<o::native_batch_norm>(m, "NativeBatchNormBackward0", 1, /*running mean and variance*/ 0b11000,
                              keeping(0b11000, kStatistics));
  // Losses, windows, the rest
  light<o::nll_loss_forward>(m, "NllLossBackward0", 1, /*weight*/ 0b100, keeping(0, /*the sum of weights*/ 0b10));
  light<o::nll_loss2d_forward>(m, "NllLoss2DBackward0", 1, /*weight*/ 0b100, keeping(0, /*the sum of weights*/ 0b10));
  light<o::mse_loss>(m, "MseLossBackward0");
  light<o::native_dropout>(m, "NativeDropoutBackward0", 1);
  light<o::max_pool2d_with_indices>(m, "MaxPool2DWithIndicesBackward0",
                                    whole(0b1, NodeTraits::GivesZeros, /*indices*/ 0b10));
  light<o::avg_pool2d>(m, "AvgPool2DBackward0", whole(0b1, NodeTraits::GivesZeros));
  light<o::_adaptive_avg_pool2d>(m, "AdaptiveAvgPool2DBackward0", whole(0b1, NodeTraits::GivesZeros));
  light<o::_thnn_fused_lstm_cell>(m, "ThnnFusedLstmCellBackward0", 0b011, 0, keeping(0b11111, /*cy, workspace*/ 0b110));
  light<o::_thnn_fused_gru_cell>(m, "ThnnFusedGruCellBackward0", 0b01, 0, keeping(0b11111, /*workspace*/ 0b10));
  light<o::gather>(m, "GatherBackward0", keeping(0b1));
  light<o::index_select>(m, "IndexSelectBackward0");
  light<o::index_add>(m, "IndexAddBackward0", {.watched_for_themselves = /*source*/ 0b100});
  light<o::scatter_add>(m, "ScatterAddBackward0", kUnsaved);
}

}  // namespace
}  // namespace lazuli::backend
