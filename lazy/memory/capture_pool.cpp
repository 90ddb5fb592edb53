#include "lazy/memory/capture_pool.h"

#include <atomic>
#include <mutex>
#include <ATen/Context.h>
#include <c10/core/StreamGuard.h>
#include "ir/hash.h"
#include "lazy/memory/backing.h"
#include "lazy/support/config.h"
#include "lazy/support/metrics.h"
#include "lazy/support/python_call.h"

namespace lazuli::lazy {
namespace {

constexpr const char* kPython = "torch_lazuli.capture_pool";
std::atomic<CapturePool*> pool_of_runner = nullptr, pool_of_readers = nullptr;

// What the user lets torch's own kernels do: other kernels may be launched under other settings.
uint64_t kernel_settings() {
  const at::Context& c = at::globalContext();
  uint64_t number = 0;
  for (bool setting : {c.userEnabledCuDNN(), c.benchmarkCuDNN(), c.deterministicCuDNN(), c.deterministicAlgorithms(),
                       c.deterministicFillUninitializedMemory()})
    number = 2 * number + setting;
  for (at::Float32Op op : {at::Float32Op::CONV, at::Float32Op::RNN, at::Float32Op::MATMUL})
    number = 8 * number + static_cast<uint64_t>(c.float32Precision(at::Float32Backend::CUDA, op));
  return number;
}

// A thread's memory comes from the pool, and its work goes to the stream.
class Inside {
 public:
  Inside(c10::Stream stream, long id) : guard_(stream), id_(id) { call_python(kPython, "enter", id); }
  ~Inside() {
    try {
      call_python(kPython, "leave", id_);
    } catch (const std::exception&) {  // the interpreter has ended, and with it the pool
    }
  }
  Inside(const Inside&) = delete;

 private:
  c10::StreamGuard guard_;
  const long id_;
};

}  // namespace

CapturePool& CapturePool::of_runner() {
  static auto* pool = new CapturePool(0);
  pool_of_runner = pool;
  return *pool;
}

CapturePool& CapturePool::of_readers() {
  static auto* pool = new CapturePool(1);
  pool_of_readers = pool;
  return *pool;
}

CapturePool::CapturePool(long id) : id_(id), stream_(backing().guard().getStreamFromGlobalPool(backing().device())) {}

void CapturePool::release_all() {
  for (CapturePool* pool : {pool_of_runner.load(), pool_of_readers.load()})
    if (pool) pool->release();
}

void CapturePool::release() {
  {
    std::lock_guard lock(mutex_);
    is_unwanted_ = has_memory_;
    if (is_held_) return;
  }
  let_go();
}

// Waits for the interpreter, so it must not hold the lock meanwhile.
void CapturePool::let_go() {
  {
    std::lock_guard lock(mutex_);
    if (!std::exchange(is_unwanted_, false)) return;
    has_memory_ = false;
    ++number_;
  }
  try {
    call_python(kPython, "release", id_);
  } catch (const std::exception&) {  // the interpreter has ended, and with it the pool
  }
}

void* CapturePool::stream() { return backing().guard().getStreamNativeHandle(stream_); }

std::shared_ptr<void> CapturePool::enter() {
  {
    std::lock_guard lock(mutex_);
    has_memory_ = true;
  }
  return std::make_shared<Inside>(stream_, id_);
}

uint64_t CapturePool::number() {
  std::lock_guard lock(mutex_);
  return ir::mix(number_, kernel_settings());
}

std::shared_ptr<void> CapturePool::hold() {
  std::lock_guard lock(mutex_);
  is_held_ = true;
  return {this, [](CapturePool* pool) {
            {
              std::lock_guard lock(pool->mutex_);
              pool->is_held_ = false;
            }
            pool->let_go();
          }};
}

bool CapturePool::always() { return config().cuda_graphs == "always"; }

void CapturePool::captured() { ++metrics().runs_captured; }

void CapturePool::refused(const std::string& why, const std::string& line) {
  metrics().noticed("not captured", why, line);
}

void CapturePool::launched() { ++metrics().captured_runs_launched; }

}  // namespace lazuli::lazy
