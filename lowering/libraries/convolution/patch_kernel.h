// The micro-kernel of our own convolutions and of attention: a matrix product whose first operand, patches of an image
// or rows of a tile, is read where it lies.
#pragma once
#include <cstdint>
#include <span>

namespace lazuli::lowering {

// Rows of patches. Element k of row r is at `data` + segments[k / length] + k % length * depth + r * row.
struct PatchRows {
  const float* data;
  int64_t row, depth;
  std::span<const int64_t> segments;
  int64_t length;
};

// What a register block's rows of patches meet: element k of column c is at `data` + k * stride + c.
struct PatchColumns {
  const float* data;
  int64_t stride;
  int vectors;  // that a row of the block has, one or two
};

// A block of sums; zero before, or added to.
struct PatchSums {
  float* data;
  int64_t stride;
  bool is_zero;
};

void patch_kernel(const PatchRows& rows, const PatchColumns& columns, const PatchSums& sums);

}  // namespace lazuli::lowering
