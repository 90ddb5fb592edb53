#include "lowering/libraries/strided_copy.h"
#include <algorithm>
#include <numeric>
#include "lowering/instruction_sets/instruction_sets.h"
#include "lowering/libraries/elements.h"
#include "lowering/libraries/transpose.h"
#include "lowering/threads/crew.h"

namespace lazuli::lowering {
namespace {

struct CopyAxis {
  int64_t size, from, to;
};

// The axes of the copy, by falling target stride, neighbours that move as one merged.
std::vector<CopyAxis> axes_of(const Layout& from, const Layout& to) {
  std::vector<CopyAxis> axes;
  for (size_t d = 0; d < to.shape.size(); ++d)
    if (to.shape[d] != 1) axes.push_back({to.shape[d], from.strides[d], to.strides[d]});
  std::stable_sort(axes.begin(), axes.end(), [](const CopyAxis& a, const CopyAxis& b) { return a.to > b.to; });
  std::vector<CopyAxis> merged;
  for (const CopyAxis& axis : axes) {
    CopyAxis* last = merged.empty() ? nullptr : &merged.back();
    if (last && last->to == axis.to * axis.size && last->from == axis.from * axis.size)
      *last = {last->size * axis.size, axis.from, axis.to};
    else
      merged.push_back(axis);
  }
  return merged;
}

// One tile: `rows` by `columns`, the columns along the innermost target axis.
struct Tile {
  template <class S, class T>
  static LAZULI_INLINE void run(const S* source, T* target, CopyAxis row, CopyAxis column) {
    for (int64_t i = 0; i < row.size; ++i) {
      const S* s = source + i * row.from;
      T* t = target + i * row.to;
      if (column.from == 1 && column.to == 1) {
#pragma omp simd
        for (int64_t j = 0; j < column.size; ++j) store_element(t[j], s[j]);
      } else if (column.from == 0 && column.to == 1) {
        const S value = *s;
#pragma omp simd
        for (int64_t j = 0; j < column.size; ++j) store_element(t[j], value);
      } else {
        for (int64_t j = 0; j < column.size; ++j) store_element(t[j * column.to], s[j * column.from]);
      }
    }
  }
};

// A tile whose source is contiguous along the rows and whose target is along the columns.
void transpose_tile(const float* source, float* target, CopyAxis row, CopyAxis column) {
  const int64_t rows = row.size / kTransposed * kTransposed, columns = column.size / kTransposed * kTransposed;
  for (int64_t i = 0; i < rows; i += kTransposed)
    for (int64_t j = 0; j < columns; j += kTransposed)
      transpose_16x16(source + i + j * column.from, column.from, target + i * row.to + j, row.to);
  for (int64_t i = 0; i < row.size; ++i)
    for (int64_t j = i < rows ? columns : 0; j < column.size; ++j) target[i * row.to + j] = source[i + j * column.from];
}

template <class S, class T>
void copy_tile(const S* source, T* target, CopyAxis row, CopyAxis column) {
  if constexpr (std::is_same_v<S, T> && sizeof(T) == sizeof(float))
    if (row.from == 1 && column.to == 1 && column.from != 1 && can_transpose())
      return transpose_tile(reinterpret_cast<const float*>(source), reinterpret_cast<float*>(target), row, column);
  run_for_host<Tile, const S*, T*, CopyAxis, CopyAxis>(source, target, row, column);
}

template <class S, class T>
void copy(const std::vector<CopyAxis>& axes, const S* source, T* target) {
  CopyAxis column = axes.back();
  // Tiles span the axis that the source is contiguous along, so that a transposition uses whole cache lines.
  size_t row_axis = axes.size() - 1;
  for (size_t d = 0; d + 1 < axes.size(); ++d)
    if (row_axis + 1 == axes.size() || axes[d].from <= axes[row_axis].from) row_axis = d;
  CopyAxis row = row_axis + 1 < axes.size() ? axes[row_axis] : CopyAxis{1, 0, 0};
  std::vector<CopyAxis> outer;
  for (size_t d = 0; d + 1 < axes.size(); ++d)
    if (d != row_axis) outer.push_back(axes[d]);

  const bool straight = column.from <= 1;
  const int64_t tile_rows = straight ? 32 : 128, tile_columns = straight ? 8192 : 32;
  const int64_t across = (row.size + tile_rows - 1) / tile_rows;
  const int64_t along = (column.size + tile_columns - 1) / tile_columns;
  int64_t tiles = across * along;
  for (const CopyAxis& axis : outer) tiles *= axis.size;

  share_out(tiles, tiles > 1 && row.size * column.size * tiles / (across * along) > 16384,
            [&](int64_t begin, int64_t end, int) {
              for (int64_t t = begin; t < end; ++t) {
                int64_t rest = t;
                const int64_t c = rest % along * tile_columns;
                rest /= along;
                const int64_t r = rest % across * tile_rows;
                rest /= across;
                int64_t from = r * row.from + c * column.from, to = r * row.to + c * column.to;
                for (size_t d = outer.size(); d-- > 0;) {
                  from += rest % outer[d].size * outer[d].from;
                  to += rest % outer[d].size * outer[d].to;
                  rest /= outer[d].size;
                }
                copy_tile(source + from, target + to, CopyAxis{std::min(tile_rows, row.size - r), row.from, row.to},
                          CopyAxis{std::min(tile_columns, column.size - c), column.from, column.to});
              }
            });
}

}  // namespace

void strided_copy(const Layout& from, const void* source, const Layout& to, void* target) {
  if (ir::product(to.shape) == 0) return;
  std::vector<CopyAxis> axes = axes_of(from, to);
  if (axes.empty()) axes.push_back({1, 1, 1});
  with_element_type(to.dtype, [&](auto t) {
    using T = decltype(t);
    if (from.dtype == to.dtype) return copy(axes, static_cast<const T*>(source), static_cast<T*>(target));
    with_element_type(from.dtype, [&](auto s) {
      using S = decltype(s);
      if constexpr (is_floating_element<S> && is_floating_element<T>)
        copy(axes, static_cast<const S*>(source), static_cast<T*>(target));
      else
        throw InternalError("strided_copy converts between floating types only");
    });
  });
}

Layout dense_layout(ir::DType dtype, const ir::Dims& shape) {
  Layout layout{dtype, shape, ir::Dims(shape.size(), 1)};
  for (size_t d = shape.size(); d-- > 1;) layout.strides[d - 1] = layout.strides[d] * max(shape[d], ir::Size(1));
  return layout;
}

Layout channels_last_layout(ir::DType dtype, const ir::Dims& shape) {
  return {dtype, shape, ir::channels_last_strides(shape)};
}

Layout with_canonical_strides(Layout layout) {
  for (size_t d = layout.shape.size(); d-- > 0;)
    if (layout.shape[d] == 1)
      layout.strides[d] = d + 1 < layout.shape.size() ? layout.strides[d + 1] * layout.shape[d + 1] : ir::Size(1);
  return layout;
}

bool is_dense(const Layout& layout) {
  return with_canonical_strides(layout).strides == dense_layout(layout.dtype, layout.shape).strides;
}

size_t extent_bytes(const Layout& layout) {
  int64_t last = 0;
  for (size_t d = 0; d < layout.shape.size(); ++d) {
    if (layout.shape[d] == 0) return 0;
    last += (layout.shape[d] - 1) * layout.strides[d];
  }
  return static_cast<size_t>(last + 1) * ir::item_size(layout.dtype);
}

}  // namespace lazuli::lowering
