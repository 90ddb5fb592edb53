#include "lazy/memory/backing.h"

#include <atomic>
#include <cstring>
#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/TensorOptions.h>
#include "jit/device.h"
#include "lazy/support/mutex.h"

namespace lazuli::lazy {
namespace {

jit::Device* compiler_for(const BackingKind& kind, c10::Device device) {
  try {
    return &kind.code(device.index());
  } catch (const std::exception& e) {
    TORCH_CHECK(false, "lazuli: torch sees a ", c10::DeviceTypeName(kind.type), " device, but ", e.what(),
                ". LAZULI_BACKING=cpu computes on the CPU.");
  }
}

std::atomic<const Backing*> made = nullptr;  // outlives every thread
// Of a static variable's first use a fork knows nothing: its child would wait for a thread that it has not.
Mutex& making = *new Mutex(Rank::Leaf);

}  // namespace

Backing::Backing(const BackingKind& kind)
    : BackingTraits(kind.traits),
      device_(kind.type == c10::kCPU ? c10::Device(c10::kCPU) : c10::Device(kind.type, 0)),
      dispatch_key_(c10::computeDispatchKey(c10::kFloat, c10::kStrided, device_)),
      code_(nullptr) {
  if (!shares_host_memory) at::globalContext().lazyInitDevice(device_.type());
  code_ = compiler_for(kind, device_);
  if (!shares_host_memory)
    pending_limit_ =
        static_cast<int64_t>(c10::getDeviceAllocator(device_.type())->getMemoryInfo(device_.index()).second / 2);
}

const Backing* Backing::if_chosen() { return made.load(std::memory_order_acquire); }

const Backing& Backing::get() {
  if (const Backing* b = made.load(std::memory_order_acquire)) return *b;
  std::lock_guard lock(making);
  if (!made) made = new Backing(choose_backing());
  return *made;
}

void* Backing::stream() const {
  return overlaps_host ? guard().getStreamNativeHandle(guard().getStream(device_)) : nullptr;
}

c10::Stream Backing::current_stream() const { return guard().getStream(device_); }

c10::Stream Backing::default_stream() const { return guard().getDefaultStream(device_); }

void Backing::order(c10::Stream before, c10::Stream after) const {
  if (before == after) return;
  void* event = nullptr;
  guard().record(&event, before, device_.index(), c10::EventFlag::PYTORCH_DEFAULT);
  guard().block(event, after);
  guard().destroyEvent(event, device_.index());
}

std::optional<c10::Stream> Backing::side_stream() const {
  if (!overlaps_host || guard().getStream(device_) != guard().getDefaultStream(device_)) return {};
  static const c10::Stream stream = guard().getStreamFromGlobalPool(device_, /*isHighPriority=*/true);
  return stream;
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
  if (!overlaps_host) return;
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
  if (shares_host_memory)
    std::memcpy(to, from, bytes);
  else
    code_->copy(to, from, bytes, stream());
}

jit::Buffer Backing::allocate(size_t bytes) const {
  c10::DataPtr data = c10::GetAllocator(device_.type())->allocate(std::max<size_t>(bytes, 1));
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
