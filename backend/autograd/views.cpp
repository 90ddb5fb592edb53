// Views at torch's autograd key: made as always, with a step that knows what each does to dimensions.
#include <c10/core/AutogradState.h>
#include "backend/autograd/light.h"
#include "lazy/support/config.h"

namespace lazuli::backend {
namespace {

using at::ArrayRef;
using at::IntArrayRef;
using at::Tensor;
using torch::autograd::CreationMeta;
using Form = ViewDerivative::Form;
using Derivative = std::unique_ptr<ViewDerivative>;

Derivative derivative(Form form, const Tensor& self, ir::Dims numbers = {}) {
  return Derivative(
      new ViewDerivative{.form = form, .sizes = lazy::to_dims(self.sizes()), .numbers = std::move(numbers)});
}
Derivative transposed(const Tensor& self, int64_t a, int64_t b) {
  ir::Dims order;
  for (int64_t i = 0; i < self.dim(); ++i) order.push_back(i);
  if (self.dim()) std::swap(order[c10::maybe_wrap_dim(a, self.dim())], order[c10::maybe_wrap_dim(b, self.dim())]);
  return derivative(Form::Permute, self, order);
}

// Each operator's derivative, from its arguments and what it returned.
struct Reshaping {
  template <class... Args>
  static Derivative of(const Tensor& self, ArrayRef<Tensor>, const Args&...) {
    return derivative(Form::Reshape, self);
  }
};
struct Expanding {
  template <class... Args>
  static Derivative of(const Tensor& self, ArrayRef<Tensor>, const Args&...) {
    return derivative(Form::Broadcast, self);
  }
};
struct Transposing {
  static Derivative of(const Tensor& self, ArrayRef<Tensor>) { return transposed(self, 0, self.dim() == 2 ? 1 : 0); }
  static Derivative of(const Tensor& self, ArrayRef<Tensor>, int64_t a, int64_t b) { return transposed(self, a, b); }
};
struct Permuting {
  static Derivative of(const Tensor& self, ArrayRef<Tensor>, IntArrayRef dims) {
    ir::Dims order;
    for (int64_t d : dims) order.push_back(c10::maybe_wrap_dim(d, self.dim()));
    return derivative(Form::Permute, self, lazy::inverse_of(order));
  }
};
struct Slicing {
  static Derivative of(const Tensor& self, ArrayRef<Tensor> views, int64_t dim, const std::optional<c10::SymInt>& start,
                       const std::optional<c10::SymInt>&, const c10::SymInt& step) {
    dim = c10::maybe_wrap_dim(dim, self.dim());
    const int64_t size = self.size(dim);
    int64_t begin = start ? start->expect_int() : 0;
    begin = std::clamp<int64_t>(begin < 0 ? begin + size : begin, 0, size);
    return derivative(Form::Slice, self, {dim, begin, views[0].size(dim), step.expect_int()});
  }
};
struct Selecting {
  static Derivative of(const Tensor& self, ArrayRef<Tensor>, int64_t dim, const c10::SymInt& index) {
    dim = c10::maybe_wrap_dim(dim, self.dim());
    const int64_t i = index.expect_int();
    return derivative(Form::Slice, self, {dim, i < 0 ? i + self.size(dim) : i, 1, 1});
  }
};
struct Splitting {
  template <class Sizes>
  static Derivative of(const Tensor& self, ArrayRef<Tensor> views, const Sizes&, int64_t dim) {
    dim = c10::maybe_wrap_dim(dim, self.dim());
    ir::Dims numbers{dim};
    for (const Tensor& v : views) numbers.push_back(v.size(dim));
    return derivative(Form::Split, self, numbers);
  }
};
struct Unbinding {
  static Derivative of(const Tensor& self, ArrayRef<Tensor> views, int64_t dim) {
    ir::Dims numbers(views.size() + 1, 1);
    numbers[0] = c10::maybe_wrap_dim(dim, self.dim());
    return derivative(Form::Split, self, numbers);
  }
};

// Torch needs no more than the base to make the view again.
bool is_simple(const Tensor& self) {
  if (!ir::is_native(lazy::to_ir(self.scalar_type())) || c10::AutogradState::get_tls_state().get_view_replay_enabled())
    return false;
  auto* parent = torch::autograd::impl::get_view_autograd_meta(self);
  return !parent || (parent->shared_view_info() && !parent->get_backward_view().has_view_fn());
}
bool is_fresh(const Tensor& view, const Tensor& self) {
  return !view.is_same(self) && !view.unsafeGetTensorImpl()->autograd_meta();
}

ArrayRef<Tensor> listed(const Tensor& t) { return t; }
ArrayRef<Tensor> listed(const std::vector<Tensor>& t) { return t; }
constexpr CreationMeta creation_of(const Tensor*) { return CreationMeta::DEFAULT; }
constexpr CreationMeta creation_of(const std::vector<Tensor>*) { return CreationMeta::MULTI_OUTPUT_NODE; }

template <class Aten, class Kind, bool is_view, class Schema = typename Aten::schema>
struct LightView;
template <class Aten, class Kind, bool is_view, class Result, class... Args>
struct LightView<Aten, Kind, is_view, Result(const Tensor&, Args...)> {
  static inline constinit NodeOf kind{};

  static Result call(c10::DispatchKeySet keys, const Tensor& self, Args... args) {
    OpTensors tensors;
    tensors.add(self);
    const Route route = tensors.route(keys);
    if (route == Route::Below) {  // torch makes it a view all the same
      at::AutoDispatchBelowAutograd guard;
      return Aten::redispatch(keys & c10::after_autograd_keyset, self, std::forward<Args>(args)...);
    }
    if (route == Route::Torch || !is_simple(self))
      return Light<Aten>::by_torch(keys, self, std::forward<Args>(args)...);
    Result result = [&] {
      at::AutoDispatchBelowADInplaceOrView guard;
      return Aten::redispatch(keys & c10::after_ADInplaceOrView_keyset, self, args...);
    }();
    const ArrayRef<Tensor> views = listed(result);
    for (const Tensor& v : views)
      if (!is_fresh(v, self)) return Light<Aten>::by_torch(keys, self, std::forward<Args>(args)...);
    if (views.empty()) return result;
    Step::record(kind, Kind::of(self, views, args...), self, views,
                 is_view ? std::optional(creation_of(static_cast<const Result*>(nullptr))) : std::nullopt);
    return result;
  }
};

template <class Aten, class Kind, bool is_view = true>
void light_view(torch::Library& m, const char* node) {
  LightView<Aten, Kind, is_view>::kind = implement<Aten, &LightView<Aten, Kind, is_view>::call>(m, {node});
}

namespace o = at::_ops;

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  if (!lazy::config().light_autograd) return;
  light_view<o::view, Reshaping>(m, "ViewBackward0");
  light_view<o::_unsafe_view, Reshaping, false>(m, "UnsafeViewBackward0");
  light_view<o::_reshape_alias, Reshaping>(m, "ReshapeAliasBackward0");
  light_view<o::alias, Reshaping>(m, "AliasBackward0");
  light_view<o::unsqueeze, Reshaping>(m, "UnsqueezeBackward0");
  light_view<o::squeeze, Reshaping>(m, "SqueezeBackward0");
  light_view<o::squeeze_dim, Reshaping>(m, "SqueezeBackward1");
  light_view<o::squeeze_dims, Reshaping>(m, "SqueezeBackward2");
  light_view<o::expand, Expanding>(m, "ExpandBackward0");
  light_view<o::t, Transposing>(m, "TBackward0");
  light_view<o::transpose_int, Transposing>(m, "TransposeBackward0");
  light_view<o::permute, Permuting>(m, "PermuteBackward0");
  light_view<o::slice_Tensor, Slicing>(m, "SliceBackward0");
  light_view<o::select_int, Selecting>(m, "SelectBackward0");
  light_view<o::split_Tensor, Splitting>(m, "SplitBackward0");
  light_view<o::split_with_sizes, Splitting>(m, "SplitWithSizesBackward0");
  light_view<o::unbind_int, Unbinding>(m, "UnbindBackward0");
}

}  // namespace
}  // namespace lazuli::backend
