// Reading and writing along one dimension at run-time positions: gather and scatter, whose index names single elements,
// and the index_* family, whose index names slices.
#include <ATen/WrapDimUtils.h>
#include "backend/record/dispatch.h"
#include "backend/record/operands.h"
#include "backend/record/registration.h"

namespace lazuli::backend {
namespace {

using at::Scalar;
using at::Tensor;

bool is_index(const Tensor& t) { return is_ours(t) && (t.scalar_type() == at::kLong || t.scalar_type() == at::kInt); }

bool gathers(const Tensor& x, int64_t dim, const Tensor& index) {
  if (!is_ours(x) || !is_index(index) || x.dim() == 0 || index.dim() != x.dim()) return false;
  for (int64_t d = 0; d < x.dim(); ++d)
    if (d != dim && index.size(d) > x.size(d)) return false;
  return true;
}
Tensor gather(const Tensor& x, int64_t dim, const Tensor& index, bool sparse) {
  int64_t d = at::maybe_wrap_dim(dim, x.dim());
  if (!gathers(x, d, index)) return fall_back<Tensor>("aten::gather", "", x, dim, index, sparse);
  lazy::Recording r;
  return r.tensor(r.emit(ir::Op::gather, {r.value(x), r.value(index)}, {{d}}), x.scalar_type());
}

// Something is written. Into what has no elements any index is an error, which no kernel would see.
bool has_places(const Tensor& x, const Tensor& index) { return x.numel() > 0 && index.numel() > 0; }

bool scatters(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src) {
  if (!gathers(x, dim, index) || !has_places(x, index) || !is_ours(src) || src.scalar_type() != x.scalar_type())
    return false;
  if (src.dim() != index.dim()) return false;
  for (int64_t d = 0; d < index.dim(); ++d)
    if (index.size(d) > src.size(d)) return false;
  return true;
}
bool adds(const Tensor& x) { return x.scalar_type() != at::kBool; }

// The leading part of src, of the index's shape.
ir::Value source(lazy::Recording& r, const Tensor& src, const Tensor& index) {
  ir::Value v = r.value(src);
  if (src.sizes() == index.sizes()) return v;
  ir::Attrs attrs;
  attrs.add(ir::Dims(index.dim(), 0)).add(lazy::to_dims(index.sizes())).add(ir::Dims(index.dim(), 1));
  return r.emit(ir::Op::slice, {v}, attrs);
}

template <ir::Op op>
struct Scatter {
  static constexpr bool add = op == ir::Op::scatter_add;
  static constexpr const char* name = add ? "aten::scatter_add" : "aten::scatter";
  static constexpr const char* name_ = add ? "aten::scatter_add_" : "aten::scatter_";
  static constexpr const char* overload = add ? "" : "src";

  static bool fits(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src) {
    return scatters(x, dim, index, src) && !(add && !adds(x));
  }
  static ir::Value emit(lazy::Recording& r, const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src) {
    return r.emit(op, {r.value(x), r.value(index), source(r, src, index)}, {{dim}});
  }
  static Tensor fresh(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src) {
    const int64_t d = at::maybe_wrap_dim(dim, x.dim());
    if (!fits(x, d, index, src)) return fall_back<Tensor>(name, overload, x, dim, index, src);
    lazy::Recording r;
    return r.tensor(emit(r, x, d, index, src), x.scalar_type());
  }
  static Tensor& in_place(Tensor& x, int64_t dim, const Tensor& index, const Tensor& src) {
    const int64_t d = at::maybe_wrap_dim(dim, x.dim());
    if (!fits(x, d, index, src) || !is_writable(x, {&index, &src}))
      return fall_back<Tensor>(name_, overload, x, dim, index, src), x;
    lazy::Recording r;
    r.write(x, emit(r, x, d, index, src));
    return x;
  }
};

ir::Value scattered_number(lazy::Recording& r, const Tensor& x, int64_t dim, const Tensor& index, const Scalar& value) {
  ir::Value src = r.broadcast(r.number(value, lazy::to_ir(x.scalar_type())), lazy::to_dims(index.sizes()));
  return r.emit(ir::Op::scatter, {r.value(x), r.value(index), src}, {{dim}});
}
bool scatters_number(const Tensor& x, int64_t dim, const Tensor& index, const Scalar& value) {
  return gathers(x, dim, index) && has_places(x, index) && takes(x, value);
}
Tensor scatter_number(const Tensor& x, int64_t dim, const Tensor& index, const Scalar& value) {
  const int64_t d = at::maybe_wrap_dim(dim, x.dim());
  if (!scatters_number(x, d, index, value)) return fall_back<Tensor>("aten::scatter", "value", x, dim, index, value);
  lazy::Recording r;
  return r.tensor(scattered_number(r, x, d, index, value), x.scalar_type());
}
Tensor& scatter_number_(Tensor& x, int64_t dim, const Tensor& index, const Scalar& value) {
  const int64_t d = at::maybe_wrap_dim(dim, x.dim());
  if (!scatters_number(x, d, index, value) || !is_writable(x, {&index}))
    return fall_back<Tensor>("aten::scatter_", "value", x, dim, index, value), x;
  lazy::Recording r;
  r.write(x, scattered_number(r, x, d, index, value));
  return x;
}

// Slices of src go to the slices of x that a one-dimensional index names.
bool places(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src) {
  if (!is_ours(x) || !is_index(index) || index.dim() != 1 || index.numel() == 0 || !is_ours(src)) return false;
  if (src.scalar_type() != x.scalar_type() || src.dim() != x.dim() || x.dim() == 0 || x.numel() == 0) return false;
  for (int64_t d = 0; d < x.dim(); ++d)
    if (src.size(d) != (d == dim ? index.size(0) : x.size(d))) return false;
  return true;
}

ir::Value added(lazy::Recording& r, const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src,
                const Scalar& alpha) {
  ir::Value v = r.value(src);
  if (alpha.toDouble() != 1) v = r.mul(v, r.number(alpha, r.dtype(v)));
  return r.emit(ir::Op::index_add, {r.value(x), r.value(index), v}, {{dim}});
}
bool adds_slices(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src, const Scalar& alpha) {
  const bool exact = c10::isFloatingType(x.scalar_type()) || alpha.isIntegral(false);
  return places(x, dim, index, src) && adds(x) && !alpha.isComplex() && exact;
}
Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src, const Scalar& alpha) {
  const int64_t d = at::maybe_wrap_dim(dim, x.dim());
  if (!adds_slices(x, d, index, src, alpha)) return fall_back<Tensor>("aten::index_add", "", x, dim, index, src, alpha);
  lazy::Recording r;
  return r.tensor(added(r, x, d, index, src, alpha), x.scalar_type());
}
Tensor& index_add_(Tensor& x, int64_t dim, const Tensor& index, const Tensor& src, const Scalar& alpha) {
  const int64_t d = at::maybe_wrap_dim(dim, x.dim());
  if (!adds_slices(x, d, index, src, alpha) || !is_writable(x, {&index, &src}))
    return fall_back<Tensor>("aten::index_add_", "", x, dim, index, src, alpha), x;
  lazy::Recording r;
  r.write(x, added(r, x, d, index, src, alpha));
  return x;
}

Tensor index_copy(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src) {
  const int64_t d = at::maybe_wrap_dim(dim, x.dim());
  if (!places(x, d, index, src)) return fall_back<Tensor>("aten::index_copy", "", x, dim, index, src);
  lazy::Recording r;
  return r.tensor(r.emit(ir::Op::index_copy, {r.value(x), r.value(index), r.value(src)}, {{d}}), x.scalar_type());
}
Tensor& index_copy_(Tensor& x, int64_t dim, const Tensor& index, const Tensor& src) {
  const int64_t d = at::maybe_wrap_dim(dim, x.dim());
  if (!places(x, d, index, src) || !is_writable(x, {&index, &src}))
    return fall_back<Tensor>("aten::index_copy_", "", x, dim, index, src), x;
  lazy::Recording r;
  r.write(x, r.emit(ir::Op::index_copy, {r.value(x), r.value(index), r.value(src)}, {{d}}));
  return x;
}

Tensor& index_fill_(Tensor& x, int64_t dim, const Tensor& index, const Scalar& value) {
  const int64_t d = at::maybe_wrap_dim(dim, x.dim());
  const bool fits = is_ours(x) && x.numel() > 0 && x.dim() > 0 && is_index(index) && index.dim() == 1 &&
                    index.numel() > 0 && takes(x, value) && is_writable(x, {&index});
  if (!fits) return fall_back<Tensor>("aten::index_fill_", "int_Scalar", x, dim, index, value), x;
  lazy::Recording r;
  ir::Dims slices = lazy::to_dims(x.sizes());
  slices[d] = index.size(0);
  ir::Value at = r.value(index);
  at = r.emit(ir::Op::index_position, {at, r.constant(static_cast<double>(x.size(d)), r.dtype(at))});
  ir::Value src = r.broadcast(r.number(value, lazy::to_ir(x.scalar_type())), slices);
  r.write(x, r.emit(ir::Op::index_copy, {r.value(x), at, src}, {{d}}));
  return x;
}

Tensor scatter_reduce(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src, c10::string_view reduce,
                      bool include_self) {
  if (reduce == "sum" && include_self) return at::scatter_add(x, dim, index, src);
  return fall_back<Tensor>("aten::scatter_reduce", "two", x, dim, index, src, std::string(reduce), include_self);
}
Tensor& scatter_reduce_(Tensor& x, int64_t dim, const Tensor& index, const Tensor& src, c10::string_view reduce,
                        bool include_self) {
  if (reduce == "sum" && include_self) return x.scatter_add_(dim, index, src);
  return fall_back<Tensor>("aten::scatter_reduce_", "two", x, dim, index, src, std::string(reduce), include_self), x;
}

}  // namespace

void register_scattering(torch::Library& m) {
  m.impl("gather", gather);
  m.impl("scatter.src", Scatter<ir::Op::scatter>::fresh);
  m.impl("scatter_.src", Scatter<ir::Op::scatter>::in_place);
  m.impl("scatter.value", scatter_number);
  m.impl("scatter_.value", scatter_number_);
  m.impl("scatter_add", Scatter<ir::Op::scatter_add>::fresh);
  m.impl("scatter_add_", Scatter<ir::Op::scatter_add>::in_place);
  m.impl("scatter_reduce.two", scatter_reduce);
  m.impl("scatter_reduce_.two", scatter_reduce_);
  m.impl("index_add", index_add);
  m.impl("index_add_", index_add_);
  m.impl("index_copy", index_copy);
  m.impl("index_copy_", index_copy_);
  m.impl("index_fill_.int_Scalar", index_fill_);
}

}  // namespace lazuli::backend
