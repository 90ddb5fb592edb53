// Torch's hooks for tensors: what every `tensor.grad_fn`, `is_leaf` or `register_hook` asks, from C++ and from Python.
// They are one object for the process, by which libtorch_cpu reaches autograd, and were not made to be replaced. Ours
// know of histories that have no node yet; there is no other way to learn that somebody asks for one.
#pragma once
#include <ATen/core/TensorBase.h>
#include <ATen/core/VariableHooksInterface.h>
#include "backend/torch_internals/node_pointer.h"

namespace lazuli::backend {

// Hands everything on to torch's own hooks.
class TensorHooks : public at::impl::VariableHooksInterface {
 public:
  explicit TensorHooks(const at::impl::VariableHooksInterface& torch) : torch_(torch) {}
  using TensorBase = at::TensorBase;

  TensorBase tensor_data(const TensorBase& t) const override;
  TensorBase variable_data(const TensorBase& t) const override;
  const NodePointer<>& grad_fn(const TensorBase& t) const override;
  unsigned _register_hook(const TensorBase& t, std::function<TensorBase(const TensorBase&)> hook) const override;
  void remove_hook(const TensorBase& t, unsigned position) const override;
  bool is_view(const TensorBase& t) const override;
  const TensorBase& base(const TensorBase& t) const override;
  const std::string& name(const TensorBase& t) const override;
  bool is_leaf(const TensorBase& t) const override;
  int64_t output_nr(const TensorBase& t) const override;
  void set_data(const TensorBase& t, const TensorBase& data) const override;
  TensorBase data(const TensorBase& t) const override;
  int64_t _version(const TensorBase& t) const override;
  void retain_grad(const TensorBase& t) const override;
  bool retains_grad(const TensorBase& t) const override;
  void _backward(const at::Tensor& t, at::TensorList inputs, const std::optional<at::Tensor>& gradient,
                 std::optional<bool> keep_graph, bool create_graph) const override;
  void requires_grad_(const TensorBase& t, bool value) const override;
  void basic_autograd_not_implemented_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                               torch::jit::Stack* stack) const override;
  std::optional<c10::ScalarType> grad_dtype(const TensorBase& t) const override;
  void set_grad_dtype(const TensorBase& t, const std::optional<c10::ScalarType>& type) const override;

 protected:
  const at::impl::VariableHooksInterface& torch_;
};

const at::impl::VariableHooksInterface& tensor_hooks();
// They must outlive every tensor.
void replace_tensor_hooks(TensorHooks& hooks);

}  // namespace lazuli::backend
