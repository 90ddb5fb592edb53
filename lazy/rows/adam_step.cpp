#include "lazy/rows/adam_step.h"

#include <cmath>
#include <ATen/ATen.h>
#include "lowering/instruction_sets/instruction_sets.h"
#include "lowering/threads/crew.h"

namespace lazuli::lazy {
namespace {

struct Numbers {
  float keep, decay, decay1, decay2, eps, size, root, sign;
};

// The formula of decompose_adam_step, in its order of rounding.
template <lowering::InstructionSet>
struct AdamLoop;
#define LAZULI_ADAM_LOOP(set, target)                                                                               \
  template <>                                                                                                       \
  struct AdamLoop<set> {                                                                                            \
    target __attribute__((optimize("O3,no-math-errno,no-trapping-math,fp-contract=off"))) static void step(         \
        int64_t n, const Numbers& k, const float* x, const float* gradient, const float* mean, const float* square, \
        float* new_x, float* new_mean, float* new_square) {                                                         \
      const float rest2 = 1 - k.decay2, rest1 = 1 - k.decay1;                                                       \
      const bool from_mean = std::abs(k.decay1) < 0.5f;                                                             \
      _Pragma("GCC ivdep") for (int64_t i = 0; i < n; ++i) {                                                        \
        const float w = x[i] * k.keep;                                                                              \
        const float g = k.sign * gradient[i] + w * k.decay;                                                         \
        const float m = from_mean ? mean[i] + k.decay1 * (g - mean[i]) : g - (g - mean[i]) * rest1;                 \
        const float s = square[i] * rest2 + k.decay2 * g * g;                                                       \
        new_mean[i] = m;                                                                                            \
        new_square[i] = s;                                                                                          \
        new_x[i] = w - k.size * m / (std::sqrt(s) / k.root + k.eps);                                                \
      }                                                                                                             \
    }                                                                                                               \
  };
#define INSTRUCTION_SET(name, target, ...) LAZULI_ADAM_LOOP(lowering::InstructionSet::name, target)
#include "lowering/instruction_sets/all.def"
#undef LAZULI_ADAM_LOOP

}  // namespace

bool has_adam_loop(const ir::Node& n) {
  return n.types[0].dtype == ir::DType::F32 && !n.inputs[4] && !n.inputs[5] && !n.inputs[11];
}

void run_adam_loop(const ir::Node& n, const std::vector<at::Tensor>& in, const std::array<at::Tensor, 3>& out) {
  const auto number = [&](size_t i) { return in[i].defined() ? in[i].item<float>() : 0.0f; };
  const bool decoupled = n.attrs.number(0) != 0, maximize = n.attrs.number(1) != 0;
  const float decay = number(9);
  const Numbers k{.keep = decoupled && in[9].defined() ? 1 - number(6) * decay : 1,
                  .decay = decoupled ? 0 : decay,
                  .decay1 = number(7),
                  .decay2 = number(8),
                  .eps = number(10),
                  .size = number(12),
                  .root = number(13),
                  .sign = maximize ? -1.0f : 1.0f};
  const auto from = [&](size_t i) { return in[i].const_data_ptr<float>(); };
  const auto to = [&](size_t i) { return out[i].mutable_data_ptr<float>(); };
  const float *x = from(0), *g = from(1), *mean = from(2), *square = from(3);
  float *new_x = to(0), *new_mean = to(1), *new_square = to(2);
  lowering::share_out(in[0].numel(), in[0].numel() > 1 << 14, [&](int64_t b, int64_t e, int) {
    lowering::for_host([&](auto set) {
      AdamLoop<set()>::step(e - b, k, x + b, g + b, mean + b, square + b, new_x + b, new_mean + b, new_square + b);
    });
  });
}

}  // namespace lazuli::lazy
