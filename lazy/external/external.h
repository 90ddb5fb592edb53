// External calls: an op without a row of ours runs as the backing device's own eager kernel, on our buffers. It is
// recorded like any other op when the shapes of its results can be known without running it (asked of torch's meta
// kernels once per signature, then remembered); otherwise the trace is synced and the kernel runs at once, counted as
// such.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include "jit/run/executable.h"

namespace lazuli::lazy {

// Replaces the operator's arguments on the stack by its results, as a boxed kernel does.
void external_call(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Runs a recorded call, made at that Python line; inputs are whole storages. For the executor, and, not counted, for
// shadow runs.
std::vector<jit::Buffer> run_external(int64_t call, const std::string& line, std::span<const jit::BufferView> inputs,
                                      std::span<const ir::Type> results, bool counted = true);

// That an operator has no kernel of ours, and how it runs instead: nothing, a warning or an error (c10::Error), as
// LAZULI_FALLBACK says.
void announce(const c10::OperatorHandle& op, const char* how);
// While it lives, a kernel that is not ours runs: counted by the operator's name, and listed in explain().
class ExternalTimer {
 public:
  explicit ExternalTimer(std::string op);
  ~ExternalTimer();

 private:
  const std::string op_, where_;
  const double start_;
};

// A lazuli tensor that takes over the memory of a CPU tensor (copied only if it is a part of something larger).
at::Tensor adopt(const at::Tensor& cpu);
// The same of memory that nobody else looks at: all of it is taken over, so that the strides and the offset stay.
at::Tensor adopt_as_it_lies(const at::Tensor& cpu);

}  // namespace lazuli::lazy
