#include "lowering/libraries/convolution/patch_kernel.h"
#include "lowering/instruction_sets/instruction_sets.h"

namespace lazuli::lowering {
namespace {

// Spelled once for each target: GCC splits vector types for the function that they stand in.
template <InstructionSet>
struct PatchKernel;
#define LAZULI_PATCH_KERNEL(set, target)                                                                         \
  template <>                                                                                                    \
  struct PatchKernel<set> {                                                                                      \
    template <int kVectors>                                                                                      \
    target static void run(const PatchRows& rows, const float* columns, int64_t stride, const PatchSums& sums) { \
      typedef float Vector __attribute__((vector_size(kRegisterBlock<set>.vector_bytes), aligned(4)));           \
      constexpr int64_t kRows = kRegisterBlock<set>.rows, kLanes = kRegisterBlock<set>.vector_bytes / 4;         \
      const int64_t row = rows.row, depth = rows.depth, length = rows.length;                                    \
      Vector s[kRows][kVectors];                                                                                 \
      _Pragma("GCC unroll 12") for (int64_t r = 0; r < kRows; ++r) {                                             \
        _Pragma("GCC unroll 2") for (int v = 0; v < kVectors; ++v) s[r][v] = Vector{};                           \
        __builtin_prefetch(sums.data + r * sums.stride, 1);                                                      \
      }                                                                                                          \
      const float* b = columns;                                                                                  \
      for (const int64_t segment : rows.segments) {                                                              \
        const float* a[kRows / 3];                                                                               \
        for (int64_t r = 0; r < kRows / 3; ++r) a[r] = rows.data + segment + 3 * r * row;                        \
        _Pragma("GCC unroll 4") for (int64_t k = 0; k < length; ++k, b += stride) {                              \
          Vector y[kVectors];                                                                                    \
          _Pragma("GCC unroll 2") for (int v = 0; v < kVectors; ++v) y[v] =                                      \
              *reinterpret_cast<const Vector*>(b + v * kLanes);                                                  \
          _Pragma("GCC unroll 12") for (int64_t r = 0; r < kRows; ++r) {                                         \
            const float x = a[r / 3][r % 3 * row];                                                               \
            _Pragma("GCC unroll 2") for (int v = 0; v < kVectors; ++v) s[r][v] += x * y[v];                      \
          }                                                                                                      \
          _Pragma("GCC unroll 4") for (int64_t r = 0; r < kRows / 3; ++r) a[r] += depth;                         \
        }                                                                                                        \
      }                                                                                                          \
      _Pragma("GCC unroll 12") for (int64_t r = 0; r < kRows; ++r) {                                             \
        Vector* to = reinterpret_cast<Vector*>(sums.data + r * sums.stride);                                     \
        _Pragma("GCC unroll 2") for (int v = 0; v < kVectors; ++v) {                                             \
          if (!sums.is_zero) s[r][v] += to[v];                                                                   \
          to[v] = s[r][v];                                                                                       \
        }                                                                                                        \
      }                                                                                                          \
    }                                                                                                            \
  };
#define INSTRUCTION_SET(name, target, ...) LAZULI_PATCH_KERNEL(InstructionSet::name, target)
#include "lowering/instruction_sets/all.def"
#undef LAZULI_PATCH_KERNEL

}  // namespace

void patch_kernel(const PatchRows& rows, const PatchColumns& columns, const PatchSums& sums) {
  for_host([&](auto set) {
    using Kernel = PatchKernel<set()>;
    (columns.vectors == 2 ? Kernel::template run<2> : Kernel::template run<1>)(rows, columns.data, columns.stride,
                                                                               sums);
  });
}

}  // namespace lazuli::lowering
