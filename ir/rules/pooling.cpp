// Pooling: shapes, derivatives.
#include "ir/rules/check.h"
#include "ir/rules/rules.h"
#include "ir/rules/window.h"

namespace lazuli::ir {
namespace {

Dims pooled_shape(const Type& x, const Window& rows, const Window& columns, bool ceil_mode) {
  if (x.rank() < 3) type_error("pool2d: Expected 3D or 4D (batch mode) tensor, but got: ", list_text(x.shape));
  size_t r = x.shape.size();
  for (const Window& w : {rows, columns}) {
    if (w.stride < 1 || w.kernel < 1) type_error("pool2d: kernel size and stride should be greater than zero");
    if (w.padding * 2 > w.kernel)
      type_error("pad should be at most half of effective kernel size, but got pad=", w.padding,
                 ", kernel_size=", w.kernel, " and dilation=", w.dilation);
  }
  Dims shape = x.shape;
  shape[r - 2] = rows.positions(x.shape[r - 2], ceil_mode);
  shape[r - 1] = columns.positions(x.shape[r - 1], ceil_mode);
  if (shape[r - 2] < 1 || shape[r - 1] < 1) {
    Size channels = x.shape[r - 3];
    type_error("Given input size: (", channels, "x", x.shape[r - 2], "x", x.shape[r - 1],
               "). Calculated output size: (", channels, "x", shape[r - 2], "x", shape[r - 1],
               "). Output size is too small");
  }
  return shape;
}

}  // namespace

void infer_max_pool2d(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  out[0].dtype = in[0]->dtype;
  out[0].shape = pooled_shape(*in[0], max_window(attrs, 0), max_window(attrs, 1), attrs.number(4));
  out[1] = {DType::I64, out[0].shape};
}

void infer_max_pool2d_grad(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  auto shape = attrs.list(0);
  if (in[0]->shape != in[1]->shape || in[0]->shape.size() != shape.size())
    type_error("max_pool2d_grad: expected a cotangent and positions of one shape");
  out[0].dtype = in[0]->dtype;
  out[0].shape = Dims(shape);
}

void infer_avg_pool2d(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  out[0].dtype = in[0]->dtype;
  out[0].shape = pooled_shape(*in[0], avg_window(attrs, 0), avg_window(attrs, 1), attrs.number(3));
}

void infer_avg_pool2d_grad(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  Type x{in[0]->dtype, Dims(attrs.list(6))};
  if (in[0]->shape != pooled_shape(x, avg_window(attrs, 0), avg_window(attrs, 1), attrs.number(3)))
    type_error("avg_pool2d_grad: the cotangent does not have the pooled shape");
  out[0] = std::move(x);
}

void vjp_max_pool2d(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t,
                    std::span<Value> out) {
  const Dims shape = b.shape(a.inputs[0]);
  Value positions = a.results.size() == 2 ? a.results[1] : Value{};
  if (!positions) {
    Value y = b.emit(Op::max_pool2d, a.inputs, a.attrs);
    positions = y.next();
  }
  if (cotangents[0]) out[0] = b.emit(Op::max_pool2d_grad, {cotangents[0], positions}, Attrs().add(shape));
}

// Each cotangent element went to one position of its plane: read it back there.
void vjp_max_pool2d_grad(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t,
                         std::span<Value> out) {
  const Dims shape = b.shape(a.inputs[0]), plane = b.shape(cotangents[0]);
  Size planes = product(SizeSpan(shape).first(shape.size() - 2));
  auto flat = [&](Value v, const Dims& s) { return b.reshape(v, Dims{planes, s[s.size() - 2] * s[s.size() - 1]}); };
  Value picked = b.emit(Op::gather, {flat(cotangents[0], plane), flat(a.inputs[1], shape)}, Attrs{{1}});
  out[0] = b.reshape(picked, shape);
}

void vjp_avg_pool2d(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t,
                    std::span<Value> out) {
  const Dims shape = b.shape(a.inputs[0]);
  Attrs attrs = a.attrs;
  out[0] = b.emit(Op::avg_pool2d_grad, {cotangents[0]}, attrs.add(shape));
}

void vjp_avg_pool2d_grad(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t,
                         std::span<Value> out) {
  Attrs attrs;
  for (size_t i = 0; i < 6; ++i) attrs.add(a.attrs.list(i));
  out[0] = b.emit(Op::avg_pool2d, {cotangents[0]}, attrs);
}

int64_t terms_avg_pool2d(std::span<const Type* const>, const Attrs& attrs, const Type&) {
  const SizeSpan kernel = attrs.list(0);
  return kernel.front() * kernel.back();
}
// Windows that overlap add up, beside those that share the mean of one.
int64_t terms_pool_grad(std::span<const Type* const> in, const Attrs&, const Type& result) {
  return int64_t{in[0]->numel()} / std::max<int64_t>(result.numel(), 1) + 4;
}

}  // namespace lazuli::ir
