// Memory and a stream for captured launches (jit/run/captured_runs.h) on a GPU: a pool of torch's caching allocator, so
// that what torch's own kernels allocate stays where it is too.
#pragma once
#include <cstdint>
#include <optional>
#include <c10/core/Stream.h>
#include "jit/run/executable.h"
#include "lazy/support/mutex.h"

namespace lazuli::lazy {

// For runs that come one after the other.
class CapturePool final : public jit::CapturePool {
 public:
  // For the runner's thread.
  static CapturePool& of_runner();
  // For who wants to read and runs a trace beside it, under the recorder's lock.
  static CapturePool& of_readers();
  // Gives all memory back, of each once no run holds it.
  static void release_all();

  void* stream() override;
  std::shared_ptr<void> enter() override;
  uint64_t number() override;  // another one also under other settings of torch's kernels
  std::shared_ptr<void> hold() override;
  bool always() override;
  void captured() override;
  void launched() override;
  void refused(const std::string& why, const std::string& line) override;

 private:
  explicit CapturePool(long id);
  void release();
  void let_go();
  const long id_;
  const c10::Stream stream_;
  Mutex mutex_{Rank::Leaf};
  uint64_t number_ = 0;
  bool is_held_ = false, is_unwanted_ = false, has_memory_ = false;
};

}  // namespace lazuli::lazy
