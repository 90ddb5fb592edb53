#include "backend/torch_internals/tensor_hooks.h"

namespace lazuli::backend {

using at::TensorBase;

TensorBase TensorHooks::tensor_data(const TensorBase& t) const { return torch_.tensor_data(t); }
TensorBase TensorHooks::variable_data(const TensorBase& t) const { return torch_.variable_data(t); }
const NodePointer<>& TensorHooks::grad_fn(const TensorBase& t) const { return torch_.grad_fn(t); }
unsigned TensorHooks::_register_hook(const TensorBase& t, std::function<TensorBase(const TensorBase&)> hook) const {
  return torch_._register_hook(t, std::move(hook));
}
void TensorHooks::remove_hook(const TensorBase& t, unsigned position) const { torch_.remove_hook(t, position); }
bool TensorHooks::is_view(const TensorBase& t) const { return torch_.is_view(t); }
const TensorBase& TensorHooks::base(const TensorBase& t) const { return torch_.base(t); }
const std::string& TensorHooks::name(const TensorBase& t) const { return torch_.name(t); }
bool TensorHooks::is_leaf(const TensorBase& t) const { return torch_.is_leaf(t); }
int64_t TensorHooks::output_nr(const TensorBase& t) const { return torch_.output_nr(t); }
void TensorHooks::set_data(const TensorBase& t, const TensorBase& data) const { torch_.set_data(t, data); }
TensorBase TensorHooks::data(const TensorBase& t) const { return torch_.data(t); }
int64_t TensorHooks::_version(const TensorBase& t) const { return torch_._version(t); }
void TensorHooks::retain_grad(const TensorBase& t) const { torch_.retain_grad(t); }
bool TensorHooks::retains_grad(const TensorBase& t) const { return torch_.retains_grad(t); }
void TensorHooks::_backward(const at::Tensor& t, at::TensorList inputs, const std::optional<at::Tensor>& gradient,
                            std::optional<bool> keep_graph, bool create_graph) const {
  torch_._backward(t, inputs, gradient, keep_graph, create_graph);
}
void TensorHooks::requires_grad_(const TensorBase& t, bool value) const { torch_.requires_grad_(t, value); }
void TensorHooks::basic_autograd_not_implemented_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                                          torch::jit::Stack* stack) const {
  torch_.basic_autograd_not_implemented_fallback(op, keys, stack);
}
std::optional<c10::ScalarType> TensorHooks::grad_dtype(const TensorBase& t) const { return torch_.grad_dtype(t); }
void TensorHooks::set_grad_dtype(const TensorBase& t, const std::optional<c10::ScalarType>& type) const {
  torch_.set_grad_dtype(t, type);
}

const at::impl::VariableHooksInterface& tensor_hooks() { return *at::impl::GetVariableHooks(); }
void replace_tensor_hooks(TensorHooks& hooks) { at::impl::SetVariableHooks(&hooks); }

}  // namespace lazuli::backend
