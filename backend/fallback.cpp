// The boxed fallback: every op of torch works, as an external call to the backing device's own eager kernel.
#include "backend/dispatch.h"
#include "lazy/external.h"

namespace lazuli::backend {

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  lazy::external_call(op, stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }

}  // namespace lazuli::backend
