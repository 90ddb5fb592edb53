// Transposes 16 x 16 four-byte elements in registers: what a strided copy between crossed orders is made of.
#pragma once
#include <cstdint>
#include "lowering/instruction_sets/instruction_sets.h"

namespace lazuli::lowering {

inline constexpr int64_t kTransposed = 16;
inline bool can_transpose() { return host_instruction_set() == InstructionSet::Avx512; }

// to[i * to_stride + j] = from[j * from_stride + i] for i, j < 16.
void transpose_16x16(const float* from, int64_t from_stride, float* to, int64_t to_stride);

}  // namespace lazuli::lowering
