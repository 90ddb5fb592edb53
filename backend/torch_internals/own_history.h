// A tensor's autograd metadata, made to say that its history is ours: that it has one, though torch's field for its
// node is empty. Torch has no such state, and it must cost recording nothing. So the highest bit of the output number
// is a mark.
//
// That rests on torch: a node has fewer than 2^31 outputs; torch asks its hooks (tensor_hooks.h), and not the fields,
// for a tensor's node and output number; and what writes a tensor's history directly also writes its output number,
// which undoes the mark.
#pragma once
#include <memory>
#include <optional>
#include <type_traits>
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>
#include "backend/torch_internals/node_pointer.h"

namespace lazuli::backend {

inline constexpr uint32_t kOwnHistory = 1u << 31;
static_assert(std::is_same_v<decltype(torch::autograd::AutogradMeta::output_nr_), uint32_t>);
static_assert(std::is_same_v<decltype(torch::autograd::Edge::input_nr), uint32_t>);

inline torch::autograd::AutogradMeta* meta_of(const at::TensorBase& t) {
  return static_cast<torch::autograd::AutogradMeta*>(t.unsafeGetTensorImpl()->autograd_meta());
}
inline torch::autograd::AutogradMeta* meta_of(const c10::TensorImpl& t) {
  return static_cast<torch::autograd::AutogradMeta*>(const_cast<c10::TensorImpl&>(t).autograd_meta());
}
inline bool is_view(const torch::autograd::AutogradMeta& meta) { return meta.is_view_; }

// The output number of a history of ours; none where the history is torch's, or there is none.
inline std::optional<uint32_t> own_output(const torch::autograd::AutogradMeta& meta) {
  const uint32_t number = __atomic_load_n(&meta.output_nr_, __ATOMIC_ACQUIRE);
  if (!(number & kOwnHistory)) return std::nullopt;
  return number & ~kOwnHistory;
}
// From now on the history is torch's: this node. Other threads may be looking.
inline void give_history(torch::autograd::AutogradMeta& meta, NodePointer<> node, uint32_t output) {
  meta.grad_fn_ = std::move(node);
  __atomic_store_n(&meta.output_nr_, output, __ATOMIC_RELEASE);
}
// From now on there is none.
inline void end_history(torch::autograd::AutogradMeta& meta) { meta.output_nr_ = 0; }

// The node of a tensor that is no view and whose history is torch's; null: none. Cheaper than to ask the hooks.
inline const NodePointer<>& torch_node(const torch::autograd::AutogradMeta& meta) { return meta.grad_fn_; }
inline uint32_t torch_output(const torch::autograd::AutogradMeta& meta) { return meta.output_nr_; }
inline bool has_forward_gradient(const torch::autograd::AutogradMeta& meta) { return meta.fw_grad_ != nullptr; }

struct OwnHistory : torch::autograd::AutogradMeta {
  explicit OwnHistory(uint32_t output) { output_nr_ = output | kOwnHistory; }
  bool requires_grad() const override { return requires_grad_ || grad_fn_ || output_nr_ & kOwnHistory; }
};

struct OwnViewHistory : torch::autograd::DifferentiableViewMeta {
  OwnViewHistory(c10::TensorImpl* view, const at::Tensor& base, torch::autograd::CreationMeta creation, uint32_t output)
      : DifferentiableViewMeta(view, torch::autograd::ViewInfo(base, nullptr, nullptr), std::nullopt,
                               /*shared_view_info=*/true, creation) {
    output_nr_ = output | kOwnHistory;
  }
  bool requires_grad() const override { return output_nr_ & kOwnHistory || DifferentiableViewMeta::requires_grad(); }
  // Before torch looks whether the view may be written, and names its node if not. Torch's kernels have no hook there,
  // but ask for the forward gradient first.
  virtual void prepare_to_be_written(const at::TensorBase& self) const = 0;
  const at::Tensor& fw_grad(uint64_t level, const at::TensorBase& self) const override {
    if (get_creation_meta() != torch::autograd::CreationMeta::DEFAULT) prepare_to_be_written(self);
    return AutogradMeta::fw_grad(level, self);
  }
};

}  // namespace lazuli::backend
