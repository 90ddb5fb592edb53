#include "backend/loader/loader.h"

#include <atomic>
#include <memory>
#include <torch/library.h>

namespace lazuli::backend {
namespace {

std::atomic<const DeviceParts*> loaded{nullptr};
// Of the Python package: null, or why the plugin does not load.
const char* (*load_through_python)() = nullptr;

// The plugin's kernels are there then: torch looks the operator up again.
void load_and_call(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  load_plugin();
  op.callBoxed(*stack);
}

// Operators on the device, until the plugin registers its own kernels.
std::unique_ptr<torch::Library>& operators() {
  static auto* library = new std::unique_ptr<torch::Library>;  // the dispatcher may end first
  return *library;
}

}  // namespace

void set_device_parts(const DeviceParts& parts) { loaded = &parts; }
const DeviceParts* device_parts() { return loaded; }

void load_plugin() {
  if (loaded) return;
  TORCH_CHECK(load_through_python, "lazuli: the plugin is loaded by Python's package torch_lazuli, which is not there");
  const char* error = load_through_python();
  TORCH_CHECK(!error, error);
  TORCH_INTERNAL_ASSERT(loaded);
}

}  // namespace lazuli::backend

// Called by Python through ctypes.
extern "C" {
LAZULI_LOADER void lazuli_load_with(const char* (*load)()) {
  using namespace lazuli::backend;
  load_through_python = load;
  operators() = std::make_unique<torch::Library>(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__,
                                                 static_cast<uint32_t>(__LINE__));
  operators()->fallback(torch::CppFunction::makeFromBoxedFunction<&load_and_call>());
}
// Before the plugin registers what this library stands in for.
LAZULI_LOADER void lazuli_make_way() { lazuli::backend::operators().reset(); }
}
