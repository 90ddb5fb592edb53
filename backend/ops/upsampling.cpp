// Images of another size whose elements are the nearest of what was there. By a whole factor each element is repeated,
// which is a view's copy, and its transpose a sum; by any other it is looked up at a computed place, and the transpose
// sums a window of the places that may show it.
#include <cmath>
#include "backend/record/dispatch.h"
#include "backend/record/format.h"
#include "backend/record/operands.h"
#include "backend/record/registration.h"
#include "lazy/memory/backing.h"

namespace lazuli::backend {
namespace {

using at::IntArrayRef;
using at::Tensor;
using std::optional;

// One dimension of the image: position i of `large` shows position min(floor(i * scale), small - 1) of `small`, where
// the product is float32's (ATen/native/UpSample.h, nearest_idx). `by_size`: where the size stays or doubles, that
// decides the scale, even if the factor is another one.
class Axis {
 public:
  Axis(int64_t small, int64_t large, optional<double> factor, bool by_size) : small_(small), large_(large) {
    if (by_size && (large == small || large == 2 * small))
      scale_ = large == small ? 1.0f : 0.5f;
    else
      scale_ = factor && *factor > 0 ? static_cast<float>(1.0 / *factor)
                                     : static_cast<float>(small) / static_cast<float>(large);
  }

  bool is_same() const { return large_ == small_ && scale_ == 1; }
  bool repeats() const { return large_ % small_ == 0 && scale_ == 1.0f / static_cast<float>(large_ / small_); }

  // i64[large]
  ir::Value shown(lazy::Recording& r) const { return shown_at(r, positions(r, large_)); }

  // The places that may show a position are the `window()` ones from start_of() on. False where others do, too.
  bool has_window() const {
    for (int64_t i = 0; i < large_; ++i) {
      const int64_t start = start_of(shown_of(i));
      if (i < start || i >= start + window()) return false;
    }
    return true;
  }
  int64_t window() const { return (large_ + small_ - 1) / small_ + 2; }
  // i64[small, window]: places, which may be past the end; bool[small, window]: whether each shows the position.
  std::pair<ir::Value, ir::Value> places(lazy::Recording& r) const {
    const ir::Dims shape{small_, window()};
    const ir::Value row = along(r, small_, 0, shape), start = start_at(r, row);
    const ir::Value place = r.add(start, along(r, window(), 1, shape)), last = whole(r, large_ - 1);
    const ir::Value shows = r.emit(ir::Op::eq, {shown_at(r, place), row}), exists = r.emit(ir::Op::le, {place, last});
    return {r.emit(ir::Op::minimum, {place, last}), r.emit(ir::Op::logical_and, {shows, exists})};
  }

 private:
  static ir::Value whole(lazy::Recording& r, int64_t n) { return r.number(n, ir::DType::I64); }
  static ir::Value positions(lazy::Recording& r, int64_t n) {
    return r.emit(ir::Op::iota, std::span<const ir::Value>(), ir::Attrs{{n}});
  }
  static ir::Value along(lazy::Recording& r, int64_t n, size_t dim, const ir::Dims& shape) {
    ir::Dims one{1, 1};
    one[dim] = n;
    return r.broadcast(r.reshape(positions(r, n), one), shape);
  }
  ir::Value scaled(lazy::Recording& r, ir::Value i, float by) const {
    return r.emit(ir::Op::floor, {r.mul(r.convert(i, ir::DType::F32), r.number(by, ir::DType::F32))});
  }
  ir::Value shown_at(lazy::Recording& r, ir::Value i) const {
    return r.emit(ir::Op::minimum, {r.convert(scaled(r, i, scale_), ir::DType::I64), whole(r, small_ - 1)});
  }
  // One before where it begins but for rounding, and not before the first.
  ir::Value start_at(lazy::Recording& r, ir::Value i) const {
    const ir::Value at = r.convert(scaled(r, i, 1.0f / scale_), ir::DType::I64);
    return r.emit(ir::Op::maximum, {r.sub(at, whole(r, 1)), whole(r, 0)});
  }
  // The same of one position.
  int64_t shown_of(int64_t i) const {
    return std::min(static_cast<int64_t>(std::floor(static_cast<float>(i) * scale_)), small_ - 1);
  }
  int64_t start_of(int64_t i) const {
    return std::max<int64_t>(static_cast<int64_t>(std::floor(static_cast<float>(i) * (1.0f / scale_))) - 1, 0);
  }

  int64_t small_, large_;
  float scale_;
};

ir::Dims with(const ir::Dims& shape, size_t dim, std::initializer_list<ir::Size> sizes) {
  ir::Dims out(ir::SizeSpan(shape).first(dim));
  for (ir::Size n : sizes) out.push_back(n);
  for (size_t i = dim + 1; i < shape.size(); ++i) out.push_back(shape[i]);
  return out;
}

ir::Value resized(lazy::Recording& r, ir::Value x, size_t dim, int64_t large, const Axis& axis) {
  if (axis.is_same()) return x;
  const ir::Dims shape = r.shape(x);
  if (!axis.repeats()) return r.emit(ir::Op::index_select, {x, axis.shown(r)}, {{static_cast<int64_t>(dim)}});
  const ir::Size times = large / int64_t{shape[dim]};
  x = r.broadcast(r.reshape(x, with(shape, dim, {shape[dim], 1})), with(shape, dim, {shape[dim], times}));
  return r.reshape(x, with(shape, dim, {large}));
}

ir::Value summed(lazy::Recording& r, ir::Value g, size_t dim, int64_t small, const Axis& axis) {
  if (axis.is_same()) return g;
  const ir::Dims shape = r.shape(g);
  if (axis.repeats()) {
    g = r.reshape(g, with(shape, dim, {small, int64_t{shape[dim]} / small}));
  } else {
    const auto [places, shows] = axis.places(r);
    const ir::Dims windows = with(shape, dim, {small, axis.window()});
    ir::Dims mask(windows.size(), 1);
    mask[dim] = small, mask[dim + 1] = axis.window();
    g = r.emit(ir::Op::index_select, {g, places}, {{static_cast<int64_t>(dim)}});
    const ir::DType t = r.dtype(g);
    g = r.emit(ir::Op::where, {r.broadcast(r.reshape(shows, mask), windows), g, r.full(windows, 0, t)});
  }
  return r.sum(g, ir::Dims{static_cast<int64_t>(dim + 1)}, false);
}

template <class... Factor>
std::vector<Axis> axes(IntArrayRef small, IntArrayRef large, bool by_size, Factor... factor) {
  std::vector<Axis> found;
  size_t i = 0;
  ((found.emplace_back(small[i], large[i], factor, by_size), ++i), ...);
  return found;
}

// Which of torch's kernels go by size (Axis): on a GPU those of two dimensions that both keep their size; on the CPU
// those of two dimensions, and `others_do` for the rest: derivatives, and images of three with more than three channels
// side by side.
bool goes_by_size(size_t rank, IntArrayRef small, IntArrayRef large, bool others_do) {
  return lazy::backing().has_host_kernels ? rank == 2 || others_do : rank == 2 && small == large;
}

bool is_image(const Tensor& t, IntArrayRef shape, IntArrayRef size, size_t rank) {
  return is_ours(t) && shape.size() == rank + 2 && size.size() == rank && at::isFloatingType(t.scalar_type()) &&
         t.numel() > 0 && std::ranges::all_of(size, [](int64_t n) { return n > 0; });
}

// Of 1, 2 or 3 dimensions: their factors come last.
template <class... Factor>
Tensor nearest(const char* name, const Tensor& x, IntArrayRef size, Factor... factor) {
  if (!is_image(x, x.sizes(), size, sizeof...(Factor))) return fall_back<Tensor>(name, "", x, size, factor...);
  constexpr size_t rank = sizeof...(Factor);
  const bool together = rank == 3 && x.size(1) > 3 && x.is_contiguous(at::MemoryFormat::ChannelsLast3d);
  const IntArrayRef small = x.sizes().slice(2);
  const auto along = axes(small, size, goes_by_size(rank, small, size, together), factor...);
  lazy::Recording r;
  ir::Value v = r.value(x);
  for (size_t i = 0; i < along.size(); ++i) v = resized(r, v, i + 2, size[i], along[i]);
  return tensor_in(r, v, x.scalar_type(), format_order(x));
}

template <class... Factor>
Tensor nearest_backward(const char* name, const Tensor& g, IntArrayRef size, IntArrayRef shape, Factor... factor) {
  const bool fits = is_image(g, shape, size, sizeof...(Factor)) &&
                    std::ranges::all_of(shape, [](int64_t n) { return n > 0; }) &&
                    g.dim() == static_cast<int64_t>(shape.size()) && g.size(0) == shape[0] && g.size(1) == shape[1] &&
                    g.sizes().slice(2) == size;
  if (!fits) return fall_back<Tensor>(name, "", g, size, shape, factor...);
  const IntArrayRef small = shape.slice(2);
  const auto along = axes(small, size, goes_by_size(sizeof...(Factor), small, size, /*others_do=*/true), factor...);
  if (!std::ranges::all_of(along, [](const Axis& a) { return a.is_same() || a.repeats() || a.has_window(); }))
    return fall_back<Tensor>(name, "", g, size, shape, factor...);
  lazy::Recording r;
  const ir::DType wide = ir::compute_type(lazy::to_ir(g.scalar_type()));
  ir::Value v = r.convert(r.value(g), wide);
  for (size_t i = 0; i < along.size(); ++i) v = summed(r, v, i + 2, shape[i + 2], along[i]);
  return tensor_in(r, r.convert(v, lazy::to_ir(g.scalar_type())), g.scalar_type(), format_order(g));
}

using Factor = optional<double>;
Tensor nearest1d(const Tensor& x, IntArrayRef size, Factor w) {
  return nearest("aten::upsample_nearest1d", x, size, w);
}
Tensor nearest2d(const Tensor& x, IntArrayRef size, Factor h, Factor w) {
  return nearest("aten::upsample_nearest2d", x, size, h, w);
}
Tensor nearest3d(const Tensor& x, IntArrayRef size, Factor d, Factor h, Factor w) {
  return nearest("aten::upsample_nearest3d", x, size, d, h, w);
}
Tensor nearest1d_backward(const Tensor& g, IntArrayRef size, IntArrayRef shape, Factor w) {
  return nearest_backward("aten::upsample_nearest1d_backward", g, size, shape, w);
}
Tensor nearest2d_backward(const Tensor& g, IntArrayRef size, IntArrayRef shape, Factor h, Factor w) {
  return nearest_backward("aten::upsample_nearest2d_backward", g, size, shape, h, w);
}
Tensor nearest3d_backward(const Tensor& g, IntArrayRef size, IntArrayRef shape, Factor d, Factor h, Factor w) {
  return nearest_backward("aten::upsample_nearest3d_backward", g, size, shape, d, h, w);
}

}  // namespace

void register_upsampling(torch::Library& m) {
  m.impl("upsample_nearest1d", nearest1d);
  m.impl("upsample_nearest2d", nearest2d);
  m.impl("upsample_nearest3d", nearest3d);
  m.impl("upsample_nearest1d_backward", nearest1d_backward);
  m.impl("upsample_nearest2d_backward", nearest2d_backward);
  m.impl("upsample_nearest3d_backward", nearest3d_backward);
}

}  // namespace lazuli::backend
