#include "backend/loader/loader.h"

#include <array>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>
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
torch::CppFunction kernel() {
  return torch::CppFunction::makeFromBoxedFunction<&fall_back<i>>();
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(kernel<0>()); }

// For each fallback the dispatcher goes through all its operators, which takes 2 ms of `import torch`. So only plain
// tensors have theirs from then on. Tensors of the other keys come from constructors, which are registered alone.
constexpr std::array kConstructors{"empty.memory_format",
                                   "empty_strided",
                                   "_efficientzerotensor",
                                   "_empty_affine_quantized",
                                   "_empty_per_channel_affine_quantized",
                                   "_sparse_coo_tensor_with_dims",
                                   "_sparse_coo_tensor_with_dims_and_tensors"};

using Libraries = std::vector<std::unique_ptr<torch::Library>>;

template <size_t i>
torch::Library& add(Libraries& libraries, const char* ns) {
  return *libraries.emplace_back(
      std::make_unique<torch::Library>(torch::Library::IMPL, ns, kKeys[i], __FILE__, __LINE__));
}

template <size_t... i>
Libraries constructors(std::index_sequence<i...>) {
  Libraries libraries;
  const auto register_all = [](torch::Library& m, auto make) {
    for (const char* name : kConstructors) m.impl(name, make());
  };
  (register_all(add<i + 1>(libraries, "aten"), kernel<i + 1>), ...);
  return libraries;
}

template <size_t... i>
Libraries fallbacks_of_others(std::index_sequence<i...>) {
  Libraries libraries;
  (add<i + 1>(libraries, "_").fallback(kernel<i + 1>()), ...);
  return libraries;
}

using Others = std::make_index_sequence<kKeys.size() - 1>;
Libraries others = constructors(Others());

// The plugin has constructors of its own for some of the keys.
void make_room_for_plugin() {
  static const bool once = (others = fallbacks_of_others(Others()), true);
  (void)once;
}

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
LAZULI_LOADER void lazuli_begin_loading() {
  lazuli::backend::make_room_for_plugin();
  lazuli::backend::is_loading = true;
}
LAZULI_LOADER void lazuli_end_loading(bool done) {
  lazuli::backend::is_loading = false;
  if (done) lazuli::backend::is_loaded = true;
}
}
