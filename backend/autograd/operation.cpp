#include "backend/autograd/operation.h"

#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>
#include "backend/autograd/step.h"
#include "backend/torch_internals/version_rules.h"

namespace lazuli::backend {
namespace {

namespace autograd = torch::autograd;
using at::Tensor;

Tensor without_history(const Tensor& t) {
  auto* impl = t.unsafeGetTensorImpl();
  return Tensor(impl->shallow_copy_and_detach(impl->version_counter(), /*allow_metadata_change=*/true));
}

// Undefined: it is gone, and only views of it are left.
Tensor tensor_of(const c10::weak_intrusive_ptr<c10::TensorImpl>& impl) {
  auto alive = impl.lock();
  return alive ? Tensor(std::move(alive)) : Tensor();
}

}  // namespace

void Operation::note(lazy::SegmentRef segment, const lazy::Saved& saved, Tensors inputs, Tensors results,
                     NodeTraits traits) {
  traits_ = traits;
  flowing_ = saved.flowing;
  for (size_t i = 0; saved.inputs >> i; ++i)
    if (saved.inputs >> i & 1) keep(true, i, *inputs[i]);
  for (size_t i = 0; saved.outputs >> i; ++i)
    if (saved.outputs >> i & 1) keep(false, i, saved.flowing >> i & 1 ? without_history(*results[i]) : *results[i]);
  const uint64_t watched = traits.watched_inputs | (traits.watched_for_themselves & saved.reached);
  for (size_t i = 0; watched >> i && i < inputs.size(); ++i)
    if (watched & ~saved.inputs & uint64_t{1} << i && inputs[i]) watch(*inputs[i], nullptr);
  for (size_t i = 0; traits.watched_results >> i; ++i)
    if (traits.watched_results & ~saved.outputs & uint64_t{1} << i) {
      if (saved.flowing >> i & 1)
        watch(*results[i], nullptr, static_cast<int>(i));
      else
        watch(*results[i], lazy::storage_of(*results[i]).cell());
    }
  keeps_ = traits.keeps || saved.any;
  segment_ = std::move(segment);
}

void Operation::keep(bool input, size_t index, Tensor t) {
  Kept& k = kept_.emplace_back();
  k.cell = lazy::storage_of(t).cell();
  k.version = t.unsafeGetTensorImpl()->version_counter().current_version();
  k.input = input;
  k.index = static_cast<uint16_t>(index);
  k.tensor = std::move(t);
}

void Operation::watch(const Tensor& t, const lazy::Cell* shows, int flowing) {
  if (t.is_inference()) return;
  const c10::VariableVersion& counter = t.unsafeGetTensorImpl()->version_counter();
  watched_.push_back({counter, counter.current_version(), c10::weak_intrusive_ptr<c10::TensorImpl>(t.getIntrusivePtr()),
                      shows, flowing});
}

void Operation::share_kept(Operation& derivative, uint64_t kept_inputs, size_t gradients, size_t first_result) const {
  for (const Kept& k : kept_) {
    Kept own = k;
    own.input = true;
    own.index = static_cast<uint16_t>((k.input ? gradients : first_result) + k.index);
    if (kept_inputs >> own.index & 1) derivative.kept_.push_back(std::move(own));
  }
}

c10::SmallVector<lazy::Replaced, 2> Operation::replaced(lazy::Recording& r) const {
  c10::SmallVector<lazy::Replaced, 2> out;
  for (const Kept& k : kept_)
    if (lazy::storage_of(k.tensor).cell() != k.cell) out.push_back({k.input, k.index, r.value(k.tensor)});
  return out;
}

lazy::Fragment Operation::lift() const {
  lazy::Recording r;
  std::lock_guard lock(graph_mutex());
  segment_->settle(r.trace());
  lazy::Fragment f = *segment_->fragment;
  auto replace = [&](lazy::Fragment::Slot& s, ir::Value v, const lazy::Order& order) {
    if (!s.cell && s.source == lazy::Fragment::kNone) return;
    s.cell = lazy::CellRef::share(&r.cell(order.empty() ? v : r.permute(v, order)));
    s.source = lazy::Fragment::kNone;
  };
  for (const lazy::Replaced& by : replaced(r)) {
    if (!by.input && f.outputs[by.index].slot != lazy::Fragment::kNone)
      replace(f.slots[f.outputs[by.index].slot], by.value, f.outputs[by.index].order);
    for (lazy::Fragment::Slot& s : f.slots)
      if (by.input && s.from == lazy::Fragment::Slot::From::Input && s.index == by.index) replace(s, by.value, s.order);
  }
  return f;
}

Operation Operation::release() {
  Operation dropped(name_);
  if (!keeps()) return dropped;
  released_ = true;
  dropped.segment_ = std::move(segment_);
  dropped.kept_ = std::move(kept_);
  kept_.clear();
  watched_.clear();
  return dropped;
}

bool Operation::is_unchanged() const {
  if (released_) return false;
  for (const Kept& k : kept_)
    if (k.tensor.unsafeGetTensorImpl()->version_counter().current_version() != k.version ||
        lazy::storage_of(k.tensor).cell() != k.cell)
      return false;
  for (const Watched& w : watched_)
    if (w.counter.current_version() != w.version) return false;
  return true;
}

void Operation::check() const {
  TORCH_CHECK(!released_, autograd::ERR_BACKWARD_TWICE);
  for (const Kept& k : kept_)
    if (const uint32_t now = k.tensor.unsafeGetTensorImpl()->version_counter().current_version(); now != k.version)
      refuse(k.tensor, k.input || !(flowing_ >> k.index & 1), k.index, now, k.version);
  for (const Watched& w : watched_)
    if (const uint32_t now = w.counter.current_version(); now != w.version)
      refuse(tensor_of(w.tensor), w.flowing < 0, static_cast<size_t>(std::max(w.flowing, 0)), now, w.version);
  for (const Watched& w : watched_)
    if (const Tensor t = w.shows ? tensor_of(w.tensor) : Tensor(); t.defined() && lazy::storage_of(t).cell() != w.shows)
      TORCH_CHECK(false, "lazuli: a result that ", name_,
                  " kept for backward was given other numbers by `.data`, which its derivative ",
                  "does not read. Use a copy of it.");
}

void Operation::refuse(const Tensor& t, bool input, size_t index, uint32_t now, uint32_t expected) const {
  std::ostringstream text;
  text << "one of the variables needed for gradient computation has been modified by an inplace operation";
  if (t.defined()) text << ": [" << t.toString() << ' ' << t.sizes() << ']';
  const autograd::Node* producer = input && t.defined() ? t.grad_fn().get() : nullptr;
  const uint32_t number = producer ? static_cast<uint32_t>(t.output_nr()) : static_cast<uint32_t>(index);
  if (producer || !input)
    text << ", which is output " << number << " of " << name_in_errors(producer ? producer->name() : name_) << ',';
  text << " is at version " << now << "; expected version " << expected << " instead.";
  if (autograd::AnomalyMode::is_enabled())
    text << " Hint: the backtrace further above shows the operation that failed to compute its gradient. The variable "
            "in "
            "question was changed in there or anywhere later. Good luck!";
  else
    text << " Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
            "torch.autograd.set_detect_anomaly(True, check_nan=False).";
  TORCH_CHECK(false, text.str());
}

void Operation::backward(lazy::Recording& r, std::span<const ir::Value> gradients, uint64_t needs,
                         std::span<ir::Value> out) const {
  if (view_) {
    view_->gradients(r, gradients, needs, out);
    return;
  }
  auto changes = replaced(r);
  // Torch's formulas give zeros to operands that no gradient reaches, and nothing where only results have one for which
  // torch's node has none, as a mean.
  bool gives_zeros = false;
  for (size_t i = 0; i < gradients.size(); ++i) gives_zeros |= gradients[i] && !(traits_.watched_results >> i & 1);
  lazy::differentiate(r, *segment_, gradients, needs, out, {changes.data(), changes.size()}, gives_zeros);
}

Tensor Operation::input_gradient(lazy::Recording& r, size_t input, ir::Value g) const {
  c10::ScalarType type = lazy::to_torch(r.dtype(g));
  if (view_) return view_->gradient_tensor(r, g, type);
  for (const auto& read : segment_->reads)  // in the memory order of what it is the gradient of
    if (read.tensor == input && read.order)
      return r.tensor(r.permute(g, segment_->order(read)), type, segment_->order(read));
  return r.tensor(g, type);
}

}  // namespace lazuli::backend
