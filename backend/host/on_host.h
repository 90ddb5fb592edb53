// What torch's kernels for the host compute for tensors whose layout has none of ours: on our memory or on
// copies.
#pragma once
#include <ATen/native/CPUFallback.h>
#include <torch/library.h>
#include "backend/host/host_memory.h"
#include "lazy/external/external.h"

namespace lazuli::backend {

// Says that an operator runs there, and times it while the result lives.
inline lazy::ExternalTimer announced_on_host(const c10::OperatorHandle& op) {
  lazy::announce(op, "runs on the host");
  return lazy::ExternalTimer(toString(op.operator_name()));
}

template <c10::DispatchKey host>
void on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const lazy::ExternalTimer timer = announced_on_host(op);
  if (!call_on_host_memory(op, stack, host)) at::native::cpu_fallback(op, stack, false, host);
}

// Whatever has a kernel for the host's tensors of a layout goes there by name: some of it has a generic kernel too,
// which makes a strided or an equally sparse result where the host's does not.
template <c10::DispatchKey host, c10::DispatchKey ours>
void rest_on_host(torch::Library& m) {
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || !op->hasKernelForDispatchKey(host) || op->hasKernelForDispatchKey(ours)) continue;
    const std::string full = name.name.substr(6) + (name.overload_name.empty() ? "" : "." + name.overload_name);
    m.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&on_host<host>>());
  }
}

}  // namespace lazuli::backend
