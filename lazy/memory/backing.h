// The backing device: whose memory holds the values of `lazuli` and whose eager kernels serve what has no kernel of
// ours. An NVIDIA GPU where torch has one (lazuli:0 is cuda:0 then), else the CPU; LAZULI_BACKING=cpu or cuda decides
// otherwise (backing_kinds.h).
#pragma once
#include <optional>
#include <c10/core/DispatchKey.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include "lazy/memory/backing_kinds.h"

namespace lazuli::lazy {

class Backing : public BackingTraits {
 public:
  // Chosen at the first call, not at import: a process that forks workers first must not have started CUDA. Throws a
  // torch error when LAZULI_BACKING asks for what is not there.
  static const Backing& get();

  // Null where it has not been chosen.
  static const Backing* if_chosen();

  c10::Device device() const { return device_; }
  // The key of its eager kernels.
  c10::DispatchKey dispatch_key() const { return dispatch_key_; }
  // Bytes of values that may wait in a trace: most of them never get memory, but nobody knows before the trace ends.
  int64_t pending_limit() const { return pending_limit_; }
  // Compiles and runs plans for it.
  jit::Device& code() const { return *code_; }
  // The native handle of torch's current stream there; null where there are none.
  void* stream() const;
  // A stream beside the default one, on which what does not depend on the work waiting there can be done at once. None
  // where there are none, and while the user has chosen a stream.
  std::optional<c10::Stream> side_stream() const;
  // Only where overlaps_host, as the next ones. Torch's own streams and events:
  const c10::impl::DeviceGuardImplInterface& guard() const { return *c10::impl::getDeviceGuardImpl(device_.type()); }
  c10::Stream current_stream() const;
  c10::Stream default_stream() const;
  // What comes in `after` waits for what is in `before` now.
  void order(c10::Stream before, c10::Stream after) const;
  // An event behind the work in the current stream; `passed` frees it when it says yes.
  void* mark() const;
  bool passed(void* event) const;
  // Until everything in that stream is done. Throws what raise_failures() throws, and CUDA's error if a kernel broke
  // off.
  void wait() const;
  // After a wait of any kind: throws a torch error for an index out of range or a zero divisor that a kernel has met.
  void raise_failures() const;
  // Calls what waits for the device. To an error of the device, which may be of any kernel before, it adds how to find
  // out.
  template <class F>
  auto waiting(F call) const {
    try {
      return call();
    } catch (c10::AcceleratorError& e) {
      e.add_context(
          "lazuli: a kernel launched before this line broke off; with CUDA_LAUNCH_BLOCKING=1 the error names it");
      throw;
    }
  }
  // Device to device, in stream order.
  void copy(void* to, const void* from, size_t bytes) const;
  // Not where shares_host_memory: from torch's caching allocator, in stream order.
  jit::Buffer allocate(size_t bytes) const;

 private:
  explicit Backing(const BackingKind& kind);
  c10::Device device_;
  c10::DispatchKey dispatch_key_;
  jit::Device* code_;
  int64_t pending_limit_ = int64_t{2} << 30;
};

inline const Backing& backing() { return Backing::get(); }

}  // namespace lazuli::lazy
