// What the processor can do at best in float32: multiply-adds of whole vectors in registers, on all threads.
#pragma once
#include "lowering/instruction_sets/instruction_sets.h"
#include "lowering/threads/crew.h"

namespace lazuli::lowering {

// As many sums as hide an instruction's latency on every processor of today.
inline constexpr int kSums = 12;

template <InstructionSet>
struct MultiplyAdds;
#define INSTRUCTION_SET(name, target, is_there, rows, bytes, ...)                           \
  template <>                                                                               \
  struct MultiplyAdds<InstructionSet::name> {                                               \
    static constexpr double kFlops = 2.0 * kSums * bytes / sizeof(float);                   \
    target static void run(int64_t times, float* to) {                                      \
      typedef float Vector __attribute__((vector_size(bytes), aligned(sizeof(float))));     \
      Vector sums[kSums] = {}, x = {}, y = {};                                              \
      x += to[0], y += to[1];                                                               \
      for (int s = 0; s < kSums; ++s) asm volatile("" : "+x"(sums[s])); /* not all alike */ \
      for (int64_t i = 0; i < times; ++i)                                                   \
        _Pragma("GCC unroll 12") for (int s = 0; s < kSums; ++s) sums[s] = sums[s] * x + y; \
      for (int s = 0; s < kSums; ++s) x += sums[s];                                         \
      *reinterpret_cast<Vector*>(to) = x;                                                   \
    }                                                                                       \
  };
#include "lowering/instruction_sets/all.def"

// Runs `times` rounds on each of `threads`, and returns how many operations these are.
inline double multiply_adds(int64_t times, int threads) {
  double flops = 0;
  for_host([&](auto set) {
    flops = MultiplyAdds<set()>::kFlops * static_cast<double>(times) * threads;
    share_out(threads, threads, [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t) {
        alignas(64) float memory[16] = {1e-3f, 1e-3f};
        MultiplyAdds<set()>::run(times, memory);
      }
    });
  });
  return flops;
}

}  // namespace lazuli::lowering
