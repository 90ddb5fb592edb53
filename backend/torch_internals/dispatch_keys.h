// Whether somebody takes part in a call or stands around a tensor (functorch, a Python mode, a tensor subclass, a
// tracer). Torch has no list of who may. But each shows by a dispatch key of its own, and the keys of a plain tensor
// of the device are few.
#pragma once
#include <c10/core/DispatchKeySet.h>
#include <c10/core/TensorImpl.h>

namespace lazuli::backend {

// Nobody else takes part in a call with these keys.
bool is_alone(c10::DispatchKeySet keys);
// Plain tensors of this device can be recorded; a wrapper's content is its own business.
bool is_plain(const c10::TensorImpl& t);

}  // namespace lazuli::backend
