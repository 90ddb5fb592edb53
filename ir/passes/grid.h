// Strided windows on a dense value, understood as views: the value reshaped to a grid, sliced, its axes permuted and
// some broadcast. Recording makes windows (a tensor is one on its storage); fusion and libraries want views.
#pragma once
#include <optional>
#include "ir/builder.h"

namespace lazuli::ir {

struct GridWindow {
  Dims grid;                  // the dense value's shape, with as many elements
  Dims starts, sizes, steps;  // of the slice, per grid dimension
  Dims order;                 // grid dimensions in the window's order; those not named have size 1
  Dims unit;                  // the window's shape with 1 where it repeats elements or has one
  bool covers = false;        // every element of the dense value is in the window exactly once
};

// None where the window is no such view. `base` is the dense value's shape, which is tried as the grid first.
std::optional<GridWindow> find_grid(SizeSpan base, SizeSpan shape, SizeSpan strides, Size offset);

// The window's elements.
Value read_window(Builder& b, Value x, const GridWindow& w, SizeSpan shape);
// The window's elements with its axes in the grid's order, dimensions that do not move dropped.
Value permute_to_grid(Builder& b, Value src, const GridWindow& w);
// The dense value of shape `base` whose window `src` is; the window must cover it.
Value write_covering_window(Builder& b, Value src, const GridWindow& w, SizeSpan base);

}  // namespace lazuli::ir
