// Autocast in reference mode on the CPU: the host's list of operators instead of a GPU's, which casts many more (a
// softmax is float32 there, and bfloat16 on the host). The dispatcher knows which operators are in it, and what is
// neither computed in the lower type nor in its operands' widest is computed in float32.
#include <unordered_set>
#include <ATen/autocast_mode.h>
#include "backend/record/dispatch.h"
#include "backend/record/registration.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using torch::jit::Stack;
constexpr auto kDevice = c10::kPrivateUse1;

// Functions, since registration may come before this file's own variables.
bool is_lower(std::string_view name) {
  static const std::unordered_set<std::string_view> names = {"aten::_addmm_activation",
                                                             "aten::_convolution",
                                                             "aten::_native_multi_head_attention",
                                                             "aten::addbmm",
                                                             "aten::addmm",
                                                             "aten::baddbmm",
                                                             "aten::bmm",
                                                             "aten::conv1d",
                                                             "aten::conv2d",
                                                             "aten::conv3d",
                                                             "aten::conv_tbc",
                                                             "aten::conv_transpose1d",
                                                             "aten::conv_transpose2d",
                                                             "aten::conv_transpose3d",
                                                             "aten::linalg_vecdot",
                                                             "aten::linear",
                                                             "aten::matmul",
                                                             "aten::mkldnn_rnn_layer",
                                                             "aten::mm",
                                                             "aten::prelu",
                                                             "aten::scaled_dot_product_attention"};
  return names.contains(name);
}
bool is_promoted(std::string_view name) {
  return name == "aten::cat" || name == "aten::index_copy" || name == "aten::stack";
}

// Calls the operator below autocast, its floating operands in this type.
void call_in(c10::ScalarType type, const c10::OperatorHandle& op, Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastPrivateUse1);
  const size_t count = op.schema().arguments().size();
  for (size_t i = stack->size() - count; i < stack->size(); ++i) {
    c10::IValue& v = (*stack)[i];
    if (v.isTensor())
      v = at::autocast::cached_cast(type, v.toTensor(), kDevice);
    else if (v.isTensorList())
      v = at::autocast::cached_cast(type, at::TensorList(v.toTensorVector()), kDevice);
  }
  op.callBoxed(stack);
}

void in_lower(const c10::OperatorHandle& op, Stack* stack) {
  call_in(at::autocast::get_lower_precision_fp_from_device_type(kDevice), op, stack);
}
void in_float(const c10::OperatorHandle& op, Stack* stack) { call_in(at::kFloat, op, stack); }
void in_widest(const c10::OperatorHandle& op, Stack* stack) {
  c10::ScalarType type = at::autocast::get_lower_precision_fp_from_device_type(kDevice);
  for (const c10::IValue& v : torch::jit::last(*stack, op.schema().arguments().size())) {
    if (v.isTensor())
      type = at::autocast::prioritize(type, v.toTensor(), kDevice);
    else if (v.isTensorList())
      type = at::autocast::prioritize(type, at::TensorList(v.toTensorVector()), kDevice);
  }
  call_in(type, op, stack);
}

}  // namespace

void register_reference_autocast(torch::Library& m) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op || !name.name.starts_with("aten::") || !op->hasKernelForDispatchKey(c10::DispatchKey::AutocastCPU))
      continue;
    const std::string own = toString(name).substr(6);
    if (is_lower(name.name))
      m.impl(own.c_str(), torch::CppFunction::makeFromBoxedFunction<&in_lower>());
    else if (is_promoted(name.name))
      m.impl(own.c_str(), torch::CppFunction::makeFromBoxedFunction<&in_widest>());
    else
      m.impl(own.c_str(), torch::CppFunction::makeFromBoxedFunction<&in_float>());
  }
}

}  // namespace lazuli::backend
