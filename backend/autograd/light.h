// An operator's kernel at torch's autograd key: records the op with a step as its history, where that is all there
// is to it; torch's own autograd does the rest.
#pragma once
#include <ATen/Operators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/boxing/impl/boxing.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>
#include "backend/autograd/light_node.h"
#include "backend/record/dispatch.h"

namespace lazuli::backend {

// Where a call goes.
enum class Route {
  Below,  // no gradient is wanted: to the kernel
  Light,
  Torch,  // wrapped tensors, Python modes, forward mode, saved-tensor hooks: to torch's own autograd kernel
};

// An operator's tensors in the order of its arguments; null where an optional one is absent.
class OpTensors {
 public:
  void add(const at::Tensor& t) { push(t.defined() ? &t : nullptr); }
  void add(const std::optional<at::Tensor>& t) { push(t && t->defined() ? &*t : nullptr); }
  void add(const at::ITensorListRef& list) {
    for (const at::Tensor& t : list) add(t);
  }
  void add(at::TensorList list) {
    for (const at::Tensor& t : list) add(t);
  }
  template <class T>
  void add(const T&) {}
  lazy::Tensors tensors() const { return more_.empty() ? lazy::Tensors(few_, count_) : lazy::Tensors(more_); }
  // A tape knows apart so many tensors.
  static constexpr size_t kMostTaped = 32;
  Route route(c10::DispatchKeySet keys, size_t most = kMostTaped);
  uint64_t requiring_grad() const { return requiring_grad_; }  // a mask, once there is a route

 private:
  void push(const at::Tensor* t) {
    if (count_ < std::size(few_)) [[likely]] {
      few_[count_++] = t;
      return;
    }
    if (more_.empty()) more_.assign(few_, few_ + count_);
    more_.push_back(t);
  }
  const at::Tensor* few_[6];
  size_t count_ = 0;
  std::vector<const at::Tensor*> more_;  // all of them, once they are not few
  uint64_t requiring_grad_ = 0;
};

// Each operator's nodes have a C++ type of their own, as torch's have: Python names their types by it.
template <class Aten>
struct NodeFor final : LightNode {
  using LightNode::LightNode;
};
struct NodeType {
  const char* name;
  const std::type_info* type;
  void* python_type;  // room for Python's PyTypeObject, for good
};
std::vector<NodeType>& node_types();  // of all operators

// Registers an operator's kernel at the autograd key, and the type of its nodes.
template <class Aten, auto kernel>
NodeOf implement(torch::Library& m, NodeOf node) {
  node.make = &LightNode::make<NodeFor<Aten>>;
  alignas(16) static std::byte python_type[1024];
  node_types().push_back({node.name, &typeid(NodeFor<Aten>), python_type});
  std::string full = Aten::name + 6;  // without "aten::"
  if (*Aten::overload_name) full = full + "." + Aten::overload_name;
  m.impl(full.c_str(), torch::dispatch(c10::DispatchKey::AutogradPrivateUse1, TORCH_FN(kernel)));
  return node;
}

// Ends the tape of an op that returned `results`, and makes their history; false when its derivative cannot be taken
// from what was recorded.
bool finish(lazy::OpTape& tape, const NodeOf& kind, lazy::Tensors inputs, lazy::Tensors results);

// Torch's own kernel at the autograd key.
void call_torch(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

inline std::array<const at::Tensor*, 1> pointers(const at::Tensor& t) { return {&t}; }
template <class... T>
std::array<const at::Tensor*, sizeof...(T)> pointers(const std::tuple<T...>& t) {
  return std::apply([](const auto&... x) { return std::array<const at::Tensor*, sizeof...(T)>{&x...}; }, t);
}

// `Aten` is a struct of at::_ops.
template <class Aten, class Schema = typename Aten::schema>
struct Light;
template <class Aten, class Result, class... Args>
struct Light<Aten, Result(Args...)> {
  static inline constinit NodeOf kind{};  // registration, which runs before main, fills it

  static Result by_torch(c10::DispatchKeySet keys, Args... args) {
    static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(Aten::name, Aten::overload_name);
    torch::jit::Stack stack = c10::impl::boxArgs<Args...>(std::forward<Args>(args)...);
    call_torch(op, keys, &stack);
    return c10::impl::PopResult<Result>::call(stack);
  }

  static Result call(c10::DispatchKeySet keys, Args... args) {
    OpTensors tensors;
    (tensors.add(args), ...);
    Route route = tensors.route(keys);
    const c10::DispatchKeySet below = keys & c10::after_ADInplaceOrView_keyset;
    if (route == Route::Below) {
      at::AutoDispatchBelowADInplaceOrView guard;
      return Aten::redispatch(below, std::forward<Args>(args)...);
    }
    if (route == Route::Light && !(tensors.requiring_grad() & kind.refused)) {
      try {
        at::AutoDispatchBelowADInplaceOrView guard;
        lazy::OpTape tape(tensors.tensors(), tensors.requiring_grad(), kind.differentiable);
        Result result = Aten::redispatch(below, args...);
        if (finish(tape, kind, tensors.tensors(), pointers(result))) return result;
      } catch (const NotTaped&) {}
    }
    return by_torch(keys, std::forward<Args>(args)...);
  }

  static void implement(torch::Library& m, const NodeOf& node) {
    kind = backend::implement<Aten, &Light::call>(m, node);
  }
};

}  // namespace lazuli::backend
