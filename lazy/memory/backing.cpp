#include "lazy/memory/backing.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include "jit/device.h"
#include "jit/devices/cuda/device.h"
#include "lazy/support/mutex.h"

namespace lazuli::lazy {
namespace {

bool torch_has_gpu() { return at::hasCUDA() && at::detail::getCUDAHooks().deviceCount() > 0; }

c10::Device choose() {
  const char* given = std::getenv("LAZULI_BACKING");
  const std::string wanted = given ? given : "";
  TORCH_CHECK(wanted.empty() || wanted == "cpu" || wanted == "cuda", "LAZULI_BACKING takes cpu or cuda, not ", wanted);
  if (wanted == "cpu") return {c10::kCPU};
  const bool gpu = torch_has_gpu();
  TORCH_CHECK(gpu || wanted != "cuda", "LAZULI_BACKING=cuda, but torch finds no CUDA device here");
  return gpu ? c10::Device(c10::kCUDA, 0) : c10::Device(c10::kCPU);
}

jit::Device* compiler_for(c10::Device device) {
  if (device.is_cpu()) return &jit::cpu_device();
  try {
    return &jit::cuda_device(device.index());
  } catch (const std::exception& e) {
    TORCH_CHECK(false, "lazuli: torch sees a CUDA device, but ", e.what(), ". LAZULI_BACKING=cpu computes on the CPU.");
  }
}

const c10::impl::DeviceGuardImplInterface& guard() { return *c10::impl::getDeviceGuardImpl(c10::kCUDA); }

std::atomic<bool> on_gpu = false;
std::atomic<const Backing*> made = nullptr;  // outlives every thread
// Of a static variable's first use a fork knows nothing: its child would wait for a thread that it has not.
Mutex& making = *new Mutex(Rank::Leaf);

}  // namespace

c10::Device Backing::choice() { return choose(); }
bool Backing::is_on_gpu() { return on_gpu; }

Backing::Backing() : device_(choose()), code_(nullptr) {
  on_gpu = is_gpu();
  if (is_gpu()) at::globalContext().lazyInitDevice(c10::kCUDA);
  code_ = compiler_for(device_);
  if (is_gpu())
    pending_limit_ =
        static_cast<int64_t>(c10::getDeviceAllocator(c10::kCUDA)->getMemoryInfo(device_.index()).second / 2);
}

const Backing& Backing::get() {
  if (const Backing* b = made.load(std::memory_order_acquire)) return *b;
  std::lock_guard lock(making);
  if (!made) made = new Backing;
  return *made;
}

void* Backing::stream() const { return is_gpu() ? guard().getStreamNativeHandle(guard().getStream(device_)) : nullptr; }

c10::Stream Backing::current_stream() const { return guard().getStream(device_); }

c10::Stream Backing::default_stream() const { return guard().getDefaultStream(device_); }

void Backing::order(c10::Stream before, c10::Stream after) const {
  if (before == after) return;
  void* event = nullptr;
  guard().record(&event, before, device_.index(), c10::EventFlag::PYTORCH_DEFAULT);
  guard().block(event, after);
  guard().destroyEvent(event, device_.index());
}

namespace {
const c10::Stream& the_side_stream(c10::Device device) {
  static const c10::Stream stream = guard().getStreamFromGlobalPool(device, /*isHighPriority=*/true);
  return stream;
}
}  // namespace

std::optional<c10::Stream> Backing::side_stream() const {
  if (!is_gpu() || guard().getStream(device_) != guard().getDefaultStream(device_)) return {};
  return the_side_stream(device_);
}

void* Backing::mark() const {
  void* event = nullptr;
  guard().record(&event, guard().getStream(device_), device_.index(), c10::EventFlag::PYTORCH_DEFAULT);
  return event;
}

bool Backing::passed(void* event) const {
  if (!guard().queryEvent(event)) return false;
  guard().destroyEvent(event, device_.index());
  return true;
}

void Backing::wait() const {
  if (!is_gpu()) return;
  waiting([&] { guard().synchronizeStream(guard().getStream(device_)); });
  raise_failures();
}

void Backing::raise_failures() const {
  try {
    code_->raise_failures();
  } catch (const std::exception& e) {
    TORCH_CHECK(false, e.what());
  }
}

void Backing::copy(void* to, const void* from, size_t bytes) const {
  if (!bytes) return;
  if (is_gpu())
    code_->copy(to, from, bytes, stream());
  else
    std::memcpy(to, from, bytes);
}

jit::Buffer Backing::allocate(size_t bytes) const {
  c10::DataPtr data = c10::GetAllocator(c10::kCUDA)->allocate(std::max<size_t>(bytes, 1));
  // Memory of another stream is used in the default one too: it is not given again before that has passed.
  if (guard().getStream(device_) != guard().getDefaultStream(device_))
    guard().recordDataPtrOnStream(data, guard().getDefaultStream(device_));
  void* p = data.get();
  auto free = data.get_deleter();
  // Once a kernel has broken off, freeing throws too, from whatever destructor it is called in.
  return {p, bytes, std::shared_ptr<void>(p, [context = data.release_context(), free](void*) {
            try {
              free(context);
            } catch (const std::exception&) {}
          })};
}

}  // namespace lazuli::lazy
