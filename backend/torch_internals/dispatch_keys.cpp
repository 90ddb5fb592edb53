#include "backend/torch_internals/dispatch_keys.h"

namespace lazuli::backend {

using K = c10::DispatchKey;
using S = c10::DispatchKeySet;

bool is_alone(S keys) {
  static const uint64_t known =
      (S(K::PrivateUse1) | S(K::AutogradPrivateUse1) | S(K::ADInplaceOrView) | S(K::CPU) | S(K::AutogradCPU) |
       S(K::AutocastPrivateUse1) | S(K::AutocastCPU) | S(K::BackendSelect))
          .raw_repr();
  return !(keys.raw_repr() & ~known);
}

S without_undefined(S keys, std::span<const at::Tensor* const> defined) {
  keys = keys - at::Tensor().key_set();
  for (const at::Tensor* t : defined) keys = keys | t->key_set();
  return keys;
}

bool is_plain(const c10::TensorImpl& t) {
  static const uint64_t known =
      (S(K::PrivateUse1) | S(K::AutogradPrivateUse1) | S(K::ADInplaceOrView) | S(K::AutocastPrivateUse1)).raw_repr();
  return !(t.key_set().raw_repr() & ~known);
}

}  // namespace lazuli::backend
