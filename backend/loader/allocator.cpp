// Torch's allocator for the device while nothing is allocated there. The plugin registers its own in place of this one.
#include <c10/core/CachingDeviceAllocator.h>
#include "backend/loader/loader.h"

namespace lazuli::backend {
namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;

struct WaitingAllocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t bytes) override { return plugin().allocate(bytes); }
  void copy_data(void* to, const void* from, size_t bytes) const override { plugin().copy_data(to, from, bytes); }
  bool initialized() override { return false; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override { return {}; }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {}
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override { return plugin().getMemoryInfo(index); }

 private:
  static c10::DeviceAllocator& plugin() {
    load_plugin();
    return *c10::getDeviceAllocator(kType);
  }
};

const bool registered = [] {
  if (!c10::GetAllocator(kType)) c10::SetAllocator(kType, new WaitingAllocator);
  return true;
}();

}  // namespace
}  // namespace lazuli::backend
