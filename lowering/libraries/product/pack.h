// Operands of matrix products in the order in which micro-kernels read them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include "lowering/instruction_sets/instruction_sets.h"

namespace lazuli::lowering {

inline constexpr int64_t kPackPadding = 64;  // bytes behind what is packed that may be written, too

// Where the operand's `size` x depth elements lie: strides along both.
template <class T>
struct Matrix {
  const T* data;
  int64_t stride, depth;
};

// Packs one block of `width` elements, of which those from `size` on are of no account, for each of `depth` positions.
struct PackBlock {
  template <class T, class C>
  LAZULI_INLINE static void run(Matrix<T> from, int64_t size, int64_t depth, int64_t width, C* to) {
    if (size < width) std::fill(to, to + width * depth, C(0));
    if (from.depth == 1) {
      for (int64_t i = 0; i < size; ++i) {
        const T* x = from.data + i * from.stride;
        for (int64_t k = 0; k < depth; ++k) to[k * width + i] = static_cast<C>(x[k]);
      }
    } else if (from.stride == 1) {
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t i = 0; i < size; ++i) to[k * width + i] = static_cast<C>(from.data[k * from.depth + i]);
    } else {
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t i = 0; i < size; ++i)
          to[k * width + i] = static_cast<C>(from.data[k * from.depth + i * from.stride]);
    }
  }
};

inline bool can_transpose_rows(int64_t width) {
  return host_instruction_set() == InstructionSet::Avx2 ||
         (host_instruction_set() == InstructionSet::Avx512 && width % 8 == 0);
}
// `size` rows of floats become columns of `width`, six or a multiple of eight, filled up with the last row; `depth` is
// a multiple of eight. Of six, each column is written with two more that the next one overwrites.
void transpose_rows(Matrix<float> from, int64_t size, int64_t depth, int64_t width, float* to);
// The first `columns` of eight rows of `width`, a multiple of eight, become rows of eight, `stride` apart.
void transpose_columns(const float* from, int64_t width, int64_t columns, float* to, int64_t stride);

// `bytes` side by side for each position.
template <int64_t bytes>
void copy_rows(const char* from, int64_t stride, int64_t depth, char* to) {
  for (int64_t k = 0; k < depth; ++k) std::memcpy(to + k * bytes, from + k * stride, bytes);
}

template <class T, class C>
void pack_block(Matrix<T> from, int64_t size, int64_t depth, int64_t width, C* to) {
  if constexpr (std::is_same_v<T, C>)
    if (from.stride == 1 && size == width) {
      const auto* data = reinterpret_cast<const char*>(from.data);
      const int64_t stride = from.depth * static_cast<int64_t>(sizeof(T));
      switch (width * sizeof(T)) {
        case 24:
          return copy_rows<24>(data, stride, depth, reinterpret_cast<char*>(to));
        case 32:
          return copy_rows<32>(data, stride, depth, reinterpret_cast<char*>(to));
        case 48:
          return copy_rows<48>(data, stride, depth, reinterpret_cast<char*>(to));
        case 64:
          return copy_rows<64>(data, stride, depth, reinterpret_cast<char*>(to));
        case 128:
          return copy_rows<128>(data, stride, depth, reinterpret_cast<char*>(to));
      }
    }
  if constexpr (std::is_same_v<T, float> && std::is_same_v<C, float>)
    if (from.depth == 1 && can_transpose_rows(width)) {
      const int64_t whole = depth / 8 * 8;
      transpose_rows(from, size, whole, width, to);
      from.data += whole, depth -= whole, to += whole * width;
    }
  if (depth) run_for_host<PackBlock>(from, size, depth, width, to);
}

// Packs all blocks; where each position is far from the next, a few of them for all blocks, then the next few: each
// lies in another page.
template <class T, class C>
void pack(Matrix<T> from, int64_t size, int64_t depth, int64_t width, C* to) {
  const int64_t few = from.stride == 1 ? 16 : depth;
  for (int64_t k = 0; k < depth; k += few)
    for (int64_t i = 0; i < size; i += width)
      pack_block(Matrix<T>{from.data + i * from.stride + k * from.depth, from.stride, from.depth},
                 std::min(width, size - i), std::min(few, depth - k), width, to + i * depth + k * width);
}

}  // namespace lazuli::lowering
