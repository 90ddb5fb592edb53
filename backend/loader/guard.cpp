// Torch's guard for the device while nothing runs there: everything is done, and there is one stream. The plugin
// registers its own in place of this one.
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include "backend/loader/loader.h"

namespace lazuli::backend {
namespace {

using c10::Device;
using c10::Stream;

Stream the_stream() { return Stream(Stream::DEFAULT, the_device()); }

struct WaitingGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  Device exchangeDevice(Device d) const override { return check_index(d.index()), the_device(); }
  Device getDevice() const override { return the_device(); }
  void setDevice(Device d) const override { check_index(d.index()); }
  void uncheckedSetDevice(Device) const noexcept override {}
  Stream getStream(Device) const override { return the_stream(); }
  Stream getDefaultStream(Device) const override { return the_stream(); }
  Stream getNewStream(Device, int) const override { return the_stream(); }
  Stream getStreamFromGlobalPool(Device, bool) const override { return the_stream(); }
  Stream exchangeStream(Stream s) const override { return s; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::DeviceCapability getDeviceCapability(Device device) const override {
    return plugin().getDeviceCapability(device);
  }
  bool queryStream(const Stream&) const override { return true; }
  void synchronizeStream(const Stream&) const override {}
  void synchronizeDevice(c10::DeviceIndex) const override {}
  void record(void** event, const Stream& stream, c10::DeviceIndex device, c10::EventFlag flag) const override {
    plugin().record(event, stream, device, flag);
  }
  void block(void* event, const Stream& stream) const override { plugin().block(event, stream); }
  bool queryEvent(void* event) const override { return plugin().queryEvent(event); }
  void synchronizeEvent(void* event) const override { plugin().synchronizeEvent(event); }
  // An event knows the guard that was there when it was made.
  void destroyEvent(void* event, c10::DeviceIndex device) const noexcept override {
    if (event) c10::impl::getDeviceGuardImpl(c10::DeviceType::PrivateUse1)->destroyEvent(event, device);
  }
  double elapsedTime(void* from, void* to, c10::DeviceIndex device) const override {
    return plugin().elapsedTime(from, to, device);
  }

 private:
  static const c10::impl::DeviceGuardImplInterface& plugin() {
    load_plugin();
    return *c10::impl::getDeviceGuardImpl(c10::DeviceType::PrivateUse1);
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, WaitingGuard);

}  // namespace
}  // namespace lazuli::backend
