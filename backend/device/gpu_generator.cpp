#include "backend/device/gpu_generator.h"
#include <mutex>
#include <ATen/Context.h>
#include <torch/library.h>
#include "backend/device/generator.h"
#include "lazy/memory/backing.h"

namespace lazuli::backend {
namespace {

// Where the generator stands for a call: the same for the same numbers of ours, and no seed of a user's.
at::Generator generator_at(int64_t seed, int64_t offset) {
  constexpr uint64_t kOther = 0x9e3779b97f4a7c15;
  constexpr uint64_t kTurn = 4;  // numbers that it makes at once: it starts at multiples
  at::Generator here = backing_generator(static_cast<uint64_t>(seed) ^ kOther);
  here.set_offset((static_cast<uint64_t>(offset) + kTurn - 1) / kTurn * kTurn);
  return here;
}

const at::Generator& gpu_generator() { return at::globalContext().defaultGenerator(lazy::backing().device()); }

// Held for a whole call, and by nobody who records.
std::mutex& borrowing() {
  static std::mutex mutex;
  return mutex;
}

// Guarded by the generator's own mutex: its state for everybody else, while a call borrows it.
at::Generator& lent_by() {
  static at::Generator state;
  return state;
}

}  // namespace

bool is_gpu_generator_unused() {
  at::Generator gpu = gpu_generator();
  const std::lock_guard lock(gpu.mutex());
  return (lent_by().defined() ? lent_by() : gpu).get_offset() == 0;
}

at::Tensor gpu_generator_state() {
  const std::lock_guard alone(borrowing());
  at::Generator gpu = gpu_generator();
  const std::lock_guard lock(gpu.mutex());
  return gpu.get_state();
}

void call_drawing_at(int64_t seed, int64_t offset, const std::function<void()>& call) {
  const std::lock_guard alone(borrowing());
  at::Generator gpu = gpu_generator();
  for (bool is_done = false; !is_done;) {
    const at::Generator here = generator_at(seed, offset);
    const uint64_t own = here.current_seed();
    {
      const std::lock_guard lock(gpu.mutex());
      lent_by() = gpu.graphsafe_get_state();
      gpu.graphsafe_set_state(here);
    }
    const auto give_back = [&] {
      const std::lock_guard lock(gpu.mutex());
      at::Generator before = std::exchange(lent_by(), {});
      gpu.graphsafe_set_state(before);
      is_done = here.current_seed() == own;
      if (!is_done) before.set_current_seed(here.current_seed());
    };
    try {
      call();
    } catch (...) {
      give_back();
      throw;
    }
    give_back();
  }
}

TORCH_LIBRARY_FRAGMENT(lazuli, m) {
  m.def("_gpu_generator_state() -> Tensor", [] { return gpu_generator_state(); });
}

}  // namespace lazuli::backend
