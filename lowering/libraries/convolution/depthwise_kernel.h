// The inner loops of our own depthwise convolutions: a channel is a lane of a vector, so that a point of an image is
// one vector, whatever the image's width, stride and dilation.
#pragma once
#include <cstdint>
#include <span>
#include "lowering/instruction_sets/instruction_sets.h"

namespace lazuli::lowering {

// Channels that are computed together.
inline int64_t depthwise_lanes() { return register_block().lanes<float>(); }

// Which point meets which weights, both in floats from where they begin.
struct LaneTap {
  int64_t point, weight;
};
// Point i of `to`, at i * to_step, becomes the sum over taps of weights times the points at from + tap.point + i *
// from_step.
struct LaneRow {
  const float *from, *weights;
  int64_t from_step;
  float* to;
  int64_t to_step, points;
};
void lane_row(const LaneRow& row, std::span<const LaneTap> taps);

// A grid of taps: (r, k) of a point reads r * row + k * column behind it, and has its sum at (r * columns + k) * sum.
struct LaneGrid {
  int64_t rows, columns, row, column, sum;
};
// Adds to the sums what the points of some rows of a gradient are times what their taps read.
struct LaneGradient {
  const float* from;
  int64_t from_row, from_step;
  const float* gradient;
  int64_t gradient_step, rows, points;  // of the gradient; its rows lie one after the other
  float* sums;
};
void lane_gradient(const LaneGradient& g, const LaneGrid& grid);

}  // namespace lazuli::lowering
