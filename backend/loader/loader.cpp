#include "backend/loader/loader.h"

#include <array>
#include <atomic>
#include <torch/library.h>

namespace lazuli::backend {
namespace {

std::atomic<const DeviceParts*> parts{nullptr};
std::atomic<bool> is_loaded{false};
thread_local bool is_loading = false;  // this thread: it may use what is there already
// Of the Python package: null, or why the plugin does not load.
const char* (*load_through_python)() = nullptr;

// The dispatch keys of the device's tensors.
constexpr std::array kKeys{c10::DispatchKey::PrivateUse1, c10::DispatchKey::SparsePrivateUse1,
                           c10::DispatchKey::SparseCsrPrivateUse1, c10::DispatchKey::QuantizedPrivateUse1,
                           c10::DispatchKey::NestedTensorPrivateUse1};
std::array<std::atomic<BoxedFallback>, kKeys.size()> fallbacks{};

// Once the plugin is there torch looks the operator up again: it may have a kernel then.
template <size_t i>
void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (is_loaded || is_loading) {
    const BoxedFallback fallback = fallbacks[i];
    TORCH_INTERNAL_ASSERT(fallback);
    return fallback(op, stack);
  }
  load_plugin();
  op.callBoxed(*stack);
}

template <size_t i>
void fall_back_at(torch::Library& m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back<i>>());
}
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { fall_back_at<0>(m); }
TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) { fall_back_at<1>(m); }
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) { fall_back_at<2>(m); }
TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) { fall_back_at<3>(m); }
TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) { fall_back_at<4>(m); }

}  // namespace

void set_device_parts(const DeviceParts& of_plugin) { parts = &of_plugin; }
const DeviceParts* device_parts() { return parts; }

bool set_fallback(c10::DispatchKey key, BoxedFallback fallback) {
  for (size_t i = 0; i < kKeys.size(); ++i)
    if (kKeys[i] == key) return fallbacks[i] = fallback, true;
  return false;
}

void load_plugin() {
  if (is_loaded || is_loading) return;
  TORCH_CHECK(load_through_python, "lazuli: the plugin is loaded by Python's package torch_lazuli, which is not there");
  const char* error = load_through_python();
  TORCH_CHECK(!error, error);
  TORCH_CHECK(is_loaded, "lazuli: the plugin is not loaded");
}

}  // namespace lazuli::backend

// Called by Python through ctypes.
extern "C" {
LAZULI_LOADER void lazuli_load_with(const char* (*load)()) { lazuli::backend::load_through_python = load; }
// Around loading, on the thread that loads; `done` at the end, if everything is there.
LAZULI_LOADER void lazuli_begin_loading() { lazuli::backend::is_loading = true; }
LAZULI_LOADER void lazuli_end_loading(bool done) {
  lazuli::backend::is_loading = false;
  if (done) lazuli::backend::is_loaded = true;
}
}
