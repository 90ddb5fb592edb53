// Memory and a stream for captured launches (jit/run/captured_runs.h) on a GPU: a pool of torch's caching allocator, so
// that what torch's own kernels allocate stays where it is too.
#pragma once
#include <cstdint>
#include <optional>
#include <c10/core/Stream.h>
#include "jit/run/executable.h"
#include "lazy/support/mutex.h"

namespace lazuli::lazy {

// For one thread, whose runs come one after the other.
class CapturePool final : public jit::CapturePool {
 public:
  // Lives as long as the process.
  static CapturePool& get();
  // Gives its memory back, once no run holds it.
  static void release();

  void* stream() override;
  std::shared_ptr<void> enter() override;
  uint64_t number() override;  // another one also under other settings of torch's kernels
  std::shared_ptr<void> hold() override;
  bool always() override;
  void captured() override;
  void launched() override;
  void refused(const std::string& why, const std::string& line) override;

 private:
  CapturePool();
  void let_go();
  const c10::Stream stream_;
  Mutex mutex_{Rank::Leaf};
  uint64_t number_ = 0;
  bool is_held_ = false, is_unwanted_ = false, has_memory_ = false;
};

}  // namespace lazuli::lazy
