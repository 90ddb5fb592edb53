// Torch's hooks for a device from outside. They can be registered once in a process, so they are here for good.
#include <ATen/autocast_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceType.h>
#include "backend/loader/loader.h"

namespace lazuli::backend {
namespace {

const DeviceParts& plugin() {
  load_plugin();
  return *device_parts();
}

struct Hooks final : at::PrivateUse1HooksInterface {
  void init() const override { load_plugin(); }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return check_index(index), plugin().default_generator();
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override { return plugin().new_generator(index); }
  c10::Device getDeviceFromPtr(void*) const override { return the_device(); }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return device_parts() != nullptr; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  void setCurrentDevice(c10::DeviceIndex index) const override { check_index(index); }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override { return check_index(index), 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  bool isPinnedPtr(const void* p) const override { return device_parts() && device_parts()->is_pinned(p); }
  at::Allocator* getPinnedMemoryAllocator() const override { return plugin().pinned_allocator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    plugin().resize(storage, bytes);
  }
};

const bool registered = [] {
  if (at::isPrivateUse1HooksRegistered()) return false;  // another plugin's
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  c10::register_privateuse1_backend("lazuli");
  // Torch's default for a device from outside is float16; what host kernels are fast in is bfloat16.
  at::autocast::set_autocast_dtype(at::kPrivateUse1, at::kBFloat16);
  return true;
}();

}  // namespace
}  // namespace lazuli::backend

// Called by Python through ctypes: whether the device is torch's one from outside.
extern "C" LAZULI_LOADER bool lazuli_is_registered() { return lazuli::backend::registered; }
