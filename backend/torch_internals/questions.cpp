// Questions of the tests in tests/torch_internals, which ask through ctypes what torch's C++ holds. Nothing else does.
#include <cstdint>
#include <torch/csrc/autograd/variable.h>
#include "backend/torch_internals/dispatch_keys.h"
#include "backend/torch_internals/imported_functions.h"
#include "backend/torch_internals/node_hooks.h"
#include "backend/torch_internals/node_mutex.h"
#include "backend/torch_internals/own_history.h"
#include "backend/torch_internals/vmap.h"

#define LAZULI_QUESTION extern "C" [[gnu::visibility("default")]]

namespace lazuli::backend {
namespace {

at::Tensor as_tensor(c10::TensorImpl* t) {
  return at::Tensor(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(t));
}
NodePointer<> accumulator_of(c10::TensorImpl* leaf) { return torch::autograd::impl::grad_accumulator(as_tensor(leaf)); }

}  // namespace

// The function that libtorch_cpu calls by that name; null: it has no entry that could be replaced.
LAZULI_QUESTION void* lazuli_imported_function(const char* symbol) {
  void** entry = find_import(symbol);
  return entry ? *entry : nullptr;
}

// The field as it is, with the mark in it.
LAZULI_QUESTION uint32_t lazuli_output_number(c10::TensorImpl* t) { return meta_of(*t)->output_nr_; }
LAZULI_QUESTION void lazuli_set_output_number(c10::TensorImpl* t, uint32_t number) { meta_of(*t)->output_nr_ = number; }

LAZULI_QUESTION bool lazuli_is_plain(c10::TensorImpl* t) { return is_plain(*t); }

LAZULI_QUESTION bool lazuli_leaf_is_hooked(c10::TensorImpl* leaf) { return is_hooked(*accumulator_of(leaf)); }
LAZULI_QUESTION bool lazuli_leaf_is_locked(c10::TensorImpl* leaf) {
  const auto node = accumulator_of(leaf);
  std::unique_lock lock(NodeMutex::of(*node), std::try_to_lock);
  return !lock;
}

// -1: the tensor is not batched by that kind of vmap.
LAZULI_QUESTION int64_t lazuli_vmap_size(c10::TensorImpl* t, bool of_func) {
  const Vmap& vmap = of_func ? vmap_of_func : vmap_of_autograd;
  const at::Tensor tensor = as_tensor(t);
  return vmap.level(tensor) ? vmap.size(tensor) : -1;
}

}  // namespace lazuli::backend
