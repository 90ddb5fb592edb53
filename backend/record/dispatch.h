// Leaving our kernels for the boxed fallback: whatever a kernel of ours does not cover goes there, with the same
// arguments, and gets eager's results and eager's errors.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/op_registration/op_registration.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

namespace lazuli::backend {

// Thrown where an op leaves our kernels while a tape notes what it records.
struct NotTaped {};

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// Calls the fallback as `name.overload`, with unboxed arguments, and returns its (first) result.
template <class Result, class... Args>
Result fall_back(const char* name, const char* overload, const Args&... args) {
  auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  torch::jit::Stack stack;
  torch::jit::push(stack, args...);
  fallback(op, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), &stack);
  if constexpr (!std::is_void_v<Result>) return torch::jit::pop(stack).to<Result>();
}

// The same for operators that return `N` tensors.
template <size_t N, class... Args>
auto fall_back_tuple(const char* name, const char* overload, const Args&... args) {
  auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  torch::jit::Stack stack;
  torch::jit::push(stack, args...);
  fallback(op, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), &stack);
  return [&]<size_t... I>(std::index_sequence<I...>) {
    return std::make_tuple(stack[I].toTensor()...);
  }(std::make_index_sequence<N>{});
}

}  // namespace lazuli::backend
