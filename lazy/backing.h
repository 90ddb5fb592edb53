// The backing device: whose memory holds the values of `lazuli` and whose eager kernels serve what has no kernel of ours.
// An NVIDIA GPU where torch has one (lazuli:0 is cuda:0 then), else the CPU; LAZULI_BACKING=cpu or cuda decides otherwise.
#pragma once
#include <c10/core/Stream.h>
#include "jit/executable.h"

namespace lazuli::lazy {

class Backing {
 public:
  // Chosen at the first call, not at import: a process that forks workers first must not have started CUDA. Throws a torch
  // error when LAZULI_BACKING asks for what is not there.
  static const Backing& get();

  c10::Device device() const { return device_; }
  bool is_gpu() const { return !device_.is_cpu(); }
  // Bytes of values that may wait in a trace: most of them never get memory, but nobody knows before the trace ends.
  int64_t pending_limit() const { return pending_limit_; }
  // Compiles and runs plans for it.
  jit::Device& code() const { return *code_; }
  // The native handle of torch's current stream there; null on the CPU.
  void* stream() const;
  c10::Stream current_stream() const;  // GPU only
  // Until everything in that stream is done. Throws what raise_failures() throws.
  void wait() const;
  // After a wait of any kind: throws a torch error for an index out of range or a zero divisor that a kernel has met.
  void raise_failures() const;
  // Device to device, in stream order.
  void copy(void* to, const void* from, size_t bytes) const;
  // GPU only: from torch's caching allocator, in stream order.
  jit::Buffer allocate(size_t bytes) const;

 private:
  Backing();
  c10::Device device_;
  jit::Device* code_;
  int64_t pending_limit_ = int64_t{2} << 30;
};

inline const Backing& backing() { return Backing::get(); }

}  // namespace lazuli::lazy
