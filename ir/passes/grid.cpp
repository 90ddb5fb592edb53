#include "ir/passes/grid.h"
#include <numeric>

namespace lazuli::ir {
namespace {

// The dimensions that move (size above 1, stride above 0), by falling stride.
Dims moving_dims(SizeSpan shape, SizeSpan strides) {
  Dims dims;
  for (size_t i = 0; i < shape.size(); ++i)
    if (!shape[i].is_surely_one() && strides[i] > 0) dims.push_back(static_cast<int64_t>(i));
  std::stable_sort(dims.begin(), dims.end(), [&](Size a, Size b) { return strides[a] > strides[b]; });
  return dims;
}

struct Search {
  SizeSpan shape, strides;
  Size offset;
  Dims moving;  // by falling stride

  // Every moving dimension walks a grid dimension of its own, in steps, without leaving it.
  std::optional<GridWindow> fit(Dims grid) const {
    Dims grid_strides = contiguous_strides(grid);
    GridWindow w{grid, Dims(grid.size(), 0), Dims(grid.size(), 1), Dims(grid.size(), 1), {}, Dims(shape.size(), 1),
                 false};
    Size rest = offset;
    for (size_t d = 0; d < grid.size(); ++d) {
      w.starts[d] = rest / grid_strides[d];
      rest %= grid_strides[d];
      if (w.starts[d] >= grid[d]) return {};
    }
    Dims axis_of(shape.size(), -1);
    size_t next = 0;
    for (size_t d = 0; d < grid.size() && next < moving.size(); ++d) {
      Size i = moving[next], step = strides[i] / grid_strides[d];
      if (grid[d] == 1 || step == 0 || strides[i] % grid_strides[d]) continue;
      if (w.starts[d] + (shape[i] - 1) * step >= grid[d]) continue;
      w.sizes[d] = shape[i];
      w.steps[d] = step;
      w.unit[i] = shape[i];
      axis_of[i] = static_cast<int64_t>(d);
      ++next;
    }
    if (next < moving.size()) return {};
    for (Size axis : axis_of)
      if (axis >= 0) w.order.push_back(axis);
    bool injective = std::ranges::equal(w.unit, shape);
    w.covers = injective && product(w.sizes) == product(grid);
    return w;
  }

  // The grid whose strides are the window's own; none where they do not divide each other.
  std::optional<Dims> own_grid(Size numel) const {
    Dims grid;
    Size outer = numel;
    for (Size i : moving) {
      if (outer % strides[i] || outer == strides[i]) return {};
      grid.push_back(outer / strides[i]);
      outer = strides[i];
    }
    if (outer != 1) grid.push_back(outer);
    return grid;
  }
};

Value drop_unmoved(Builder& b, Value x, const GridWindow& w) {
  Dims kept;
  for (size_t d = 0; d < w.sizes.size(); ++d)
    if (std::ranges::find(w.order, Size(d)) != w.order.end()) kept.push_back(w.sizes[d]);
  return b.reshape(x, kept);
}

// The order of the kept axes among themselves.
Dims kept_order(const GridWindow& w) {
  Dims order;
  for (Size axis : w.order) order.push_back(std::ranges::count_if(w.order, [&](Size other) { return other < axis; }));
  return order;
}

}  // namespace

std::optional<GridWindow> find_grid(SizeSpan base, SizeSpan shape, SizeSpan strides, Size offset) {
  if (product(shape) == 0 || product(base) == 0) return {};
  Search search{shape, strides, offset, moving_dims(shape, strides)};
  if (auto w = search.fit(Dims(base))) return w;
  auto grid = search.own_grid(product(base));
  return grid ? search.fit(*grid) : std::nullopt;
}

Value read_window(Builder& b, Value x, const GridWindow& w, SizeSpan shape) {
  x = b.reshape(x, w.grid);
  if (w.sizes != w.grid) x = b.emit(Op::slice, {x}, Attrs().add(w.starts).add(w.sizes).add(w.steps));
  x = b.permute(drop_unmoved(b, x, w), kept_order(w));
  return b.broadcast(b.reshape(x, w.unit), shape);
}

Value permute_to_grid(Builder& b, Value src, const GridWindow& w) {
  Dims moved;
  for (Size axis : w.order) moved.push_back(w.sizes[axis]);
  Dims order = kept_order(w), inverse(order.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = static_cast<int64_t>(i);
  return b.permute(b.reshape(src, moved), inverse);
}

Value write_covering_window(Builder& b, Value src, const GridWindow& w, SizeSpan base) {
  return b.reshape(permute_to_grid(b, src, w), base);
}

}  // namespace lazuli::ir
