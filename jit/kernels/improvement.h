// Kernels that run long get faster code, which another thread makes. That thread has the lowest priority that there is:
// it takes only what time the cores have left. When the code comes decides about time alone, never about results.
#pragma once
#include <chrono>
#include <memory>
#include "jit/kernels/kernel.h"

namespace lazuli::jit {

// Tells that the kernel ran so long, if its code is not fast yet. Thread-safe.
void ran(const std::shared_ptr<const Kernel>& kernel, std::chrono::nanoseconds time);
// Has that thread make ready what the first kernel needs (prepare_to_compile), while the program does something else.
void prepare_ahead();
// As the process ends, before its static objects are destroyed, LLVM's among them: no code is made any more.
void end_improvements();
// Waits until no faster code is wanted, for tests.
void finish_improvements();

// Times a launch of the kernel, as long as there is something to decide.
class Watch {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Watch(const std::shared_ptr<const Kernel>& kernel)
      : kernel_(kernel && !kernel->function.is_fast() ? &kernel : nullptr) {
    if (kernel_) start_ = Clock::now();
  }
  ~Watch() {
    if (kernel_) ran(*kernel_, Clock::now() - start_);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  const std::shared_ptr<const Kernel>* kernel_;
  Clock::time_point start_;
};

}  // namespace lazuli::jit
