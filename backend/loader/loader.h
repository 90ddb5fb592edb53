// What stands in for the plugin until the device is first used. See README.md.
#pragma once
#include <ATen/core/Generator.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>
#include <c10/util/Exception.h>

#define LAZULI_LOADER [[gnu::visibility("default")]]

namespace lazuli::backend {

// What the plugin does for torch's hooks. It gives the table while it is loaded.
struct DeviceParts {
  const at::Generator& (*default_generator)();
  at::Generator (*new_generator)(c10::DeviceIndex index);
  bool (*is_pinned)(const void* p);
  at::Allocator* (*pinned_allocator)();
  void (*resize)(const c10::Storage& storage, size_t bytes);
};
LAZULI_LOADER void set_device_parts(const DeviceParts& parts);
// The plugin's; null until it is loaded.
const DeviceParts* device_parts();

// What an operator does that has no kernel at this dispatch key of the device. The loader has the dispatcher's place
// for it, which can be given once; the plugin says here what is done.
using BoxedFallback = void (*)(const c10::OperatorHandle& op, torch::jit::Stack* stack);
LAZULI_LOADER bool set_fallback(c10::DispatchKey key, BoxedFallback fallback);

// Loads the plugin, if it is not there, and waits until another thread has. Throws what the Python package said if it
// does not load.
void load_plugin();

inline c10::Device the_device() { return {c10::DeviceType::PrivateUse1, 0}; }
inline void check_index(c10::DeviceIndex index) {
  TORCH_CHECK(index <= 0, "lazuli: there is no device lazuli:", static_cast<int>(index),
              "; this process has one lazuli device");
}

}  // namespace lazuli::backend
