#include "backend/record/requirements.h"

namespace lazuli::backend {

ir::Value required(lazy::Recording& r, ir::Value x, ir::Value holds, ir::Requirement what) {
  const ir::Value broken = r.convert(r.emit(ir::Op::logical_not, {holds}), ir::DType::I64);
  const ir::Value checked = r.emit(ir::Op::require, {broken}, {{static_cast<int64_t>(what)}});
  const ir::Value fine = r.emit(ir::Op::eq, {checked, r.constant(0, ir::DType::I64)});
  return r.emit(ir::Op::where, {fine, x, r.constant(0, r.dtype(x))});
}
at::Tensor required(const at::Tensor& x, const at::Tensor& holds, ir::Requirement what) {
  lazy::Recording r;
  return r.tensor(required(r, r.value(x), r.value(holds), what), x.scalar_type());
}

}  // namespace lazuli::backend
