// What torch asks of a device: guard, streams and events, allocator, storage factory. There is one stream, the
// one that is current on the backing device when a trace runs; on the CPU, work is done when a call returns.
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/jit/serialization/pickler.h>
#include <torch/library.h>
#include "backend/device/generator.h"
#include "backend/device/pinned_memory.h"
#include "backend/device/storage_surgery.h"
#include "backend/loader/loader.h"
#include "lazy/memory/backing.h"
#include "lazy/memory/memory.h"
#include "lazy/run/runner.h"
#include "lazy/run/sync.h"
#include "lazy/trace/storage.h"

namespace lazuli::backend {
namespace {

using c10::Device;
using c10::Stream;

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  Device exchangeDevice(Device d) const override { return check_index(d.index()), lazy::device(); }
  Device getDevice() const override { return lazy::device(); }
  void setDevice(Device d) const override { check_index(d.index()); }
  void uncheckedSetDevice(Device) const noexcept override {}
  Stream getStream(Device) const override { return Stream(Stream::DEFAULT, lazy::device()); }
  Stream getDefaultStream(Device) const override { return Stream(Stream::DEFAULT, lazy::device()); }
  Stream getNewStream(Device, int) const override { return Stream(Stream::DEFAULT, lazy::device()); }
  Stream getStreamFromGlobalPool(Device, bool) const override { return Stream(Stream::DEFAULT, lazy::device()); }
  Stream exchangeStream(Stream s) const override { return s; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  // With the CPU behind it, all types of the CPU.
  c10::DeviceCapability getDeviceCapability(Device) const override {
    return lazy::backing().overlaps_host ? below().getDeviceCapability(lazy::backing().device())
                                         : c10::DeviceCapability();
  }
  bool queryStream(const Stream&) const override {
    return !lazy::backing().overlaps_host ||
           (lazy::Runner::get().is_idle() && below().queryStream(lazy::backing().current_stream()));
  }
  void synchronizeStream(const Stream&) const override { lazy::finish(); }
  void synchronizeDevice(c10::DeviceIndex) const override { lazy::finish(); }
  // Events are the backing device's, behind the work recorded so far. Where it has none, as on the CPU, what came
  // before an event is computed when it is recorded, and the event is the time.
  void record(void** event, const Stream&, c10::DeviceIndex, c10::EventFlag flag) const override {
    lazy::sync(lazy::SyncReason::Explicit);
    lazy::Runner::get().wait();
    if (lazy::backing().overlaps_host)
      return below().record(event, lazy::backing().current_stream(), lazy::backing().device().index(), flag);
    if (!*event) *event = new Time;
    *static_cast<Time*>(*event) = std::chrono::steady_clock::now();
  }
  void block(void* event, const Stream&) const override {
    if (lazy::backing().overlaps_host) below().block(event, lazy::backing().current_stream());
  }
  bool queryEvent(void* event) const override { return !lazy::backing().overlaps_host || below().queryEvent(event); }
  void synchronizeEvent(void* event) const override {
    if (lazy::backing().overlaps_host) below().synchronizeEvent(event);
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    if (lazy::backing().overlaps_host) return below().destroyEvent(event, lazy::backing().device().index());
    delete static_cast<Time*>(event);
  }
  double elapsedTime(void* from, void* to, c10::DeviceIndex) const override {
    if (lazy::backing().overlaps_host) return below().elapsedTime(from, to, lazy::backing().device().index());
    return std::chrono::duration<double, std::milli>(*static_cast<Time*>(to) - *static_cast<Time*>(from)).count();
  }

 private:
  using Time = std::chrono::steady_clock::time_point;
  static const c10::impl::DeviceGuardImplInterface& below() { return lazy::backing().guard(); }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

// What the hooks of torch (backend/loader/hooks.cpp) need of the plugin.
const DeviceParts kParts{
    .default_generator = []() -> const at::Generator& { return default_generator(); },
    .new_generator = [](c10::DeviceIndex i) { return at::make_generator<Generator>(std::max<c10::DeviceIndex>(i, 0)); },
    .is_pinned = is_pinned,
    .pinned_allocator = pinned_allocator,
    .resize = [](const c10::Storage& s, size_t bytes) { resize_storage_bytes(s.unsafeGetStorageImpl(), bytes); }};

c10::intrusive_ptr<c10::StorageImpl> create_storage(c10::StorageImpl::use_byte_size_t, c10::SymInt bytes, c10::DataPtr,
                                                    c10::Allocator*, bool) {
  int64_t n = bytes.expect_int();
  return lazy::make_storage(lazy::make_uninitialized({ir::DType::U8, {n}}), static_cast<size_t>(n));
}

// Everything that must be known to torch before the first tensor.
const bool registered = [] {
  c10::SetStorageImplCreate(c10::DeviceType::PrivateUse1, &create_storage);
  c10::SetAllocator(c10::DeviceType::PrivateUse1, lazy::storage_allocator());
  auto nothing = [](const at::Tensor&, std::unordered_map<std::string, bool>&) {};
  torch::jit::TensorBackendMetaRegistry(c10::DeviceType::PrivateUse1, nothing, nothing);
  set_device_parts(kParts);
  return true;
}();

}  // namespace
}  // namespace lazuli::backend
