// Whether somebody takes part in a call or stands around a tensor (functorch, a Python mode, a tensor subclass, a
// tracer). Torch has no list of who may. But each shows by a dispatch key of its own, and the keys of a plain tensor
// of the device are few.
#pragma once
#include <span>
#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/TensorImpl.h>

namespace lazuli::backend {

// Nobody else takes part in a call with these keys.
bool is_alone(c10::DispatchKeySet keys);
// A call's keys without those of undefined tensors, which look like another device's: Python puts them into lists where
// an index is absent. `defined`: all other tensors of the call.
c10::DispatchKeySet without_undefined(c10::DispatchKeySet keys, std::span<const at::Tensor* const> defined);
// Plain tensors of this device can be recorded; a wrapper's content is its own business.
bool is_plain(const c10::TensorImpl& t);

}  // namespace lazuli::backend
