// histc: how many elements lie in each of the bins between two given numbers. Integers are counted too, as on a GPU.
#include <cmath>
#include <ATen/Dispatch.h>
#include <ATen/ops/histc.h>
#include "backend/record/dispatch.h"
#include "backend/record/elementwise.h"
#include "backend/record/operands.h"
#include "backend/record/registration.h"

namespace lazuli::backend {
namespace {

using at::Scalar;
using at::Tensor;

// The type in which positions are computed: eager's own for the floating types. Bool: none is ours.
ir::DType computed_in(const Tensor& x, int64_t bins, const Scalar& low, const Scalar& high) {
  const ir::DType type = is_ours(x) ? lazy::to_ir(x.scalar_type()) : ir::DType::Bool;
  if (type == ir::DType::Bool || bins <= 0 || low.isComplex() || high.isComplex()) return ir::DType::Bool;
  const double width = high.toDouble() - low.toDouble();
  if (!(width > 0) || !std::isfinite(width)) return ir::DType::Bool;  // the range is the data's own, or an error
  if (type == ir::DType::F32 || type == ir::DType::F64) return type;
  const bool exact =
      low.isIntegral(false) && high.isIntegral(false) && width * static_cast<double>(bins) < std::ldexp(1.0, 62);
  return ir::is_floating(type) || !exact ? ir::DType::Bool : ir::DType::I64;
}

// What is in no bin is counted in one more behind the last, which is cut off.
ir::Value counted(lazy::Recording& r, const Tensor& x, int64_t bins, const Scalar& low, const Scalar& high,
                  ir::DType type) {
  ir::Value v = r.convert(r.reshape(r.value(x), ir::Dims{x.numel()}), type);
  ir::Value from = r.number(low, type), to = r.number(high, type);
  ir::Value inside = r.emit(ir::Op::bitwise_and, {r.emit(ir::Op::ge, {v, from}), r.emit(ir::Op::le, {v, to})});
  v = r.sub(r.emit(ir::Op::where, {inside, v, from}), from);
  v = r.emit(ir::Op::trunc_divide, {r.mul(v, r.number(bins, type)), r.sub(to, from)});
  ir::Value bin = r.emit(ir::Op::minimum, {r.convert(v, ir::DType::I64), r.number(bins - 1, ir::DType::I64)});
  bin = r.emit(ir::Op::where, {inside, bin, r.number(bins, ir::DType::I64)});
  const ir::DType counts = lazy::to_ir(x.scalar_type());
  ir::Value all = r.emit(ir::Op::scatter_add,
                         {r.full(ir::Dims{bins + 1}, 0, counts), bin, r.full(ir::Dims{x.numel()}, 1, counts)}, {{0}});
  return r.emit(ir::Op::slice, {all}, {{0}, {bins}, {1}});
}

Tensor histc(const Tensor& x, int64_t bins, const Scalar& low, const Scalar& high) {
  // Numbers of 16 bits would count no further than to 256 or 2048: a count is rounded once, when it is complete.
  if (c10::isReducedFloatingType(x.scalar_type()) && !low.isComplex() && !high.isComplex()) {
    const ir::DType narrow = lazy::to_ir(x.scalar_type());
    return at::histc(x.to(c10::kFloat), bins, rounded(low, narrow), rounded(high, narrow)).to(x.scalar_type());
  }
  const ir::DType type = x.numel() ? computed_in(x, bins, low, high) : ir::DType::Bool;
  if (type == ir::DType::Bool) return fall_back<Tensor>("aten::histc", "", x, bins, low, high);
  if (type == ir::DType::I64)  // torch's error for a bound that the elements' type does not hold
    AT_DISPATCH_INTEGRAL_TYPES(x.scalar_type(), "histc", [&] {
      Scalar(low.toDouble()).to<scalar_t>();
      Scalar(high.toDouble()).to<scalar_t>();
    });
  lazy::Recording r;
  return r.tensor(counted(r, x, bins, low, high, type), x.scalar_type());
}

}  // namespace

void register_histogram(torch::Library& m) { m.impl("histc", histc); }

}  // namespace lazuli::backend
