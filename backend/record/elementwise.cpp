#include "backend/record/elementwise.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include "backend/record/complex_numbers.h"
#include "backend/record/dispatch.h"
#include "ir/body.h"
#include "lazy/memory/backing.h"

namespace lazuli::backend {
namespace {

struct Plan {
  c10::ScalarType common, result;
  ir::Dims shape;
};

// The operand's number, if it is one.
std::optional<c10::Scalar> known(const Operand& o) {
  if (!o.tensor) return o.number;
  return is_number(*o.tensor) ? std::optional(number_of(*o.tensor)) : std::nullopt;
}
bool is_zero(const Operand& o) {
  const auto number = known(o);
  return number && number->equal(0);
}
bool is_negative(const Operand& o) {
  const auto number = known(o);
  return number && number->toDouble() < 0;
}
bool is_unary(const Operands& operands) {
  return std::ranges::count_if(operands, [](const Operand& o) { return o.tensor != nullptr; }) == 1;
}

bool agree(const Operands& operands, c10::ScalarType type) {
  for (const Operand& o : operands)
    if (o.tensor && !(o.tensor->is_cpu() && o.tensor->unsafeGetTensorImpl()->is_wrapped_number()) &&
        o.tensor->scalar_type() != type)
      return false;
  return true;
}

bool is_bounding(ir::Op op) { return op == ir::Op::clamp || op == ir::Op::clamp_min || op == ir::Op::clamp_max; }

// False: eager has its own answer, or its own error.
bool promote(ir::Op op, const Operands& operands, Plan& p) {
  const ir::OpInfo& row = ir::info(op);
  p.common = promoted_type(operands);
  if (row.promote == ir::Promote::First) {
    if (!operands[0].tensor) return false;
    p.common = operands[0].tensor->scalar_type();
    for (const Operand& o : operands)
      if (o.tensor ? o.tensor != operands[0].tensor : !holds(p.common, o.number)) return false;
  }
  // Of a bound or an exponent that the type does not hold eager judges, and of any number that float32 does not: some
  // rows' kernels raise an error.
  const bool is_own = is_bounding(op) || op == ir::Op::pow;
  const bool is_narrow = c10::isReducedFloatingType(p.common) || p.common == c10::kFloat;
  if (is_own || is_narrow)
    for (const Operand& o : operands)
      if (const auto number = known(o);
          number && !number->isComplex() && !holds(is_own ? p.common : c10::kFloat, *number))
        return false;
  if (row.promote == ir::Promote::None && !(c10::isFloatingType(p.common) && agree(operands, p.common))) return false;
  // Known here, so the error comes from the line that divides; of tensors, the kernel sees it.
  if (c10::isIntegralType(p.common, false) && row.promote == ir::Promote::Common && ir::can_fail(op) &&
      is_zero(operands.back()))
    return false;
  if (row.promote == ir::Promote::Floating && c10::isIntegralType(p.common, true))
    p.common = c10::typeMetaToScalarType(c10::get_default_dtype());
  if (op == ir::Op::pow && c10::isIntegralType(p.common, true) && is_negative(operands.back())) return false;
  p.result = row.result == ir::Result::Bool ? c10::kBool : p.common;
  // On bool torch defines few of the rows that compute (and, or and the like, whose types are checked by a rule of
  // their own, add and mul, but no shifts); which of the others it refuses is eager's to say.
  bool computes = row.result == ir::Result::Same && row.promote != ir::Promote::Floating && !row.infer;
  const bool shifts = op == ir::Op::shift_left || op == ir::Op::shift_right;
  if (p.common == c10::kBool && (shifts || (computes && op != ir::Op::add && op != ir::Op::mul))) return false;
  return ir::is_native(lazy::to_ir(p.common));
}

Operand typed(const Operand& o, ir::DType type) {
  if (!ir::is_reduced_floating(type) || (o.tensor && !is_number(*o.tensor))) return o;
  return {nullptr, rounded(o.tensor ? number_of(*o.tensor) : o.number, type)};
}

ir::Value apply(lazy::Recording& r, ir::Op op, const Operands& operands, const Plan& p, const lazy::Order& order,
                ir::Attrs attrs) {
  c10::SmallVector<ir::Value, 4> in;
  ir::DType type = lazy::to_ir(p.common);
  const ir::OpInfo& row = ir::info(op);
  if (operands.size() == 2 && operands[1].tensor && is_wide_second(op, *operands[1].tensor, type)) {
    for (const Operand& o : operands) in.push_back(read(r, o, ir::compute_type(type), order));
    return r.convert(r.emit(op, std::span<const ir::Value>(in.data(), in.size()), std::move(attrs), {}), type);
  }
  const bool is_fixed = row.fixed_numbers && (type == ir::DType::F32 || type == ir::DType::F64);
  for (const Operand& o : operands)
    in.push_back(is_fixed && !o.tensor ? r.constant(o.number.toDouble(), type)
                                       : read(r, row.rounds_numbers ? typed(o, type) : o, type, order));
  return r.emit(op, std::span<const ir::Value>(in.data(), in.size()), std::move(attrs), {});
}

}  // namespace

void check_overlap(const at::Tensor& out, const Operands& operands) {
  at::assert_no_internal_overlap(out);
  for (const Operand& o : operands) {
    if (!o.tensor || !o.tensor->is_privateuseone() || !o.tensor->has_storage() || o.tensor->is_same(out)) continue;
    // Storages are told apart by identity: their data pointers are stand-ins.
    if (o.tensor->storage().unsafeGetStorageImpl() == out.storage().unsafeGetStorageImpl())
      at::assert_no_partial_overlap(out, *o.tensor);
  }
}

bool is_wide_second(ir::Op op, const at::Tensor& second, ir::DType type) {
  return ir::info(op).wide_second && ir::is_reduced_floating(type) && lazy::backing().has_host_kernels &&
         second.dim() == 0 && second.is_privateuseone() && lazy::to_ir(second.scalar_type()) != type;
}

c10::Scalar rounded(const c10::Scalar& number, ir::DType type) {
  const auto x = static_cast<float>(number.toDouble());
  if (type == ir::DType::BF16) return static_cast<double>(static_cast<float>(c10::BFloat16(x)));
  if (type == ir::DType::F16) return static_cast<double>(static_cast<float>(c10::Half(x)));
  return number;
}

at::Tensor elementwise(ir::Op op, const Operands& operands, ir::Attrs attrs) {
  Plan p;
  if (!covered(operands)) return complex_elementwise(op, operands);
  if (!promote(op, operands, p)) return {};
  // Rows with a type rule (bit operations) refuse floating types: so does eager, in its own words.
  if (ir::info(op).infer && c10::isFloatingType(p.common)) return {};
  p.shape = broadcast_shape(operands);
  lazy::Order order = result_order(operands, p.shape, p.common);
  lazy::Recording r;
  at::Tensor out = r.tensor(apply(r, op, operands, p, order, std::move(attrs)), p.result, order);
  take_strides_of_ones(out, operands, p.common);
  return out;
}

bool elementwise_into(const at::Tensor& out, ir::Op op, const Operands& operands, bool resize, ir::Attrs attrs) {
  Plan p;
  if (!covered(operands)) return complex_elementwise_into(out, op, operands, resize);
  if (!is_ours(out) || overlaps_itself(out) || !promote(op, operands, p)) return false;
  if (ir::info(op).infer && c10::isFloatingType(p.common)) return false;
  if (!c10::canCast(p.result, out.scalar_type())) return false;  // eager's error
  const bool one_type = is_unary(operands) || ir::info(op).promote == ir::Promote::None;
  if (one_type && p.result != out.scalar_type()) return false;  // eager allows it of some
  check_overlap(out, operands);                                 // eager looks at this before shapes
  p.shape = broadcast_shape(operands);
  bool fits = ir::equal(p.shape, out.sizes());
  if (!fits && !resize) return false;
  if (!fits) {
    for (const Operand& o : operands)
      TORCH_CHECK(!o.tensor || !o.tensor->is_same(out), "output with shape ", out.sizes(),
                  " doesn't match the broadcast shape ", lazy::to_ref(p.shape));
    at::native::resize_output(out, lazy::to_ref(p.shape));
    take_order(out, result_order(operands, p.shape, p.common));
    take_strides_of_ones(out, operands, p.common);
  }
  lazy::Order order;
  if (!out.is_contiguous()) lazy::memory_order(out.sizes(), out.strides(), order);
  lazy::Recording r;
  ir::Value v = r.convert(apply(r, op, operands, p, order, std::move(attrs)), lazy::to_ir(out.scalar_type()));
  if (order.empty()) {
    r.write(out, v);
  } else {
    lazy::Order inverse(order.size(), 0);
    for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = static_cast<int64_t>(i);
    if (lazy::fills_storage(out))
      r.rebind_storage(out, v);
    else
      r.write(out, r.permute(v, inverse));
  }
  return true;
}

namespace {

// Row-major tensors of the device on whose type the row computes without a conversion.
bool is_simple(ir::Op op, const at::Tensor& t) {
  auto* x = t.unsafeGetTensorImpl();
  if (!nameless_on_device(*x) || !x->is_contiguous()) return false;
  const ir::OpInfo& row = ir::info(op);
  if (row.result != ir::Result::Same || row.infer || row.promote == ir::Promote::First) return false;
  const ir::DType dtype = lazy::to_ir(t.scalar_type());
  return ir::is_floating(dtype) || (row.promote == ir::Promote::Common && !ir::can_fail(op) && ir::is_integral(dtype));
}

ir::Value second(lazy::Recording& r, ir::Op op, ir::Value first, const at::Tensor& b, bool number) {
  if (!number) return r.row_major_value(b);
  const ir::DType dtype = r.dtype(first);
  c10::Scalar s = number_of(b);
  return r.number(ir::info(op).rounds_numbers ? rounded(s, dtype) : s, dtype);
}
enum class Second { Other, Number, Like };
Second kind_of_second(const at::Tensor& a, const at::Tensor& b) {
  auto *x = a.unsafeGetTensorImpl(), *y = b.unsafeGetTensorImpl();
  if (y->dim() == 0 && y->is_wrapped_number() && y->is_cpu())
    return c10::isFloatingType(a.scalar_type()) && x->dim() != 0 && x->numel() != 0 && !b.is_complex() &&
                   has_usual_strides(a)
               ? Second::Number
               : Second::Other;
  const bool like =
      nameless_on_device(*y) && y->is_contiguous() && x->dtype() == y->dtype() && ir::equal(x->sizes(), y->sizes());
  return like ? Second::Like : Second::Other;
}

}  // namespace

at::Tensor unary_fast(ir::Op op, const at::Tensor& a) {
  if (!is_simple(op, a)) return {};
  lazy::Recording r;
  ir::Value v = r.row_major_value(a);
  return r.tensor(r.emit_typed(op, {v}, r.type(v)), a.scalar_type());
}

at::Tensor binary_fast(ir::Op op, const at::Tensor& a, const at::Tensor& b) {
  if (!is_simple(op, a)) return {};
  const Second kind = kind_of_second(a, b);
  if (kind == Second::Other) return {};
  lazy::Recording r;
  ir::Value v = r.row_major_value(a), w = second(r, op, v, b, kind == Second::Number);
  return r.tensor(r.emit_typed(op, {v, w}, r.type(v)), a.scalar_type());
}

bool binary_fast_in_place(ir::Op op, const at::Tensor& a, const at::Tensor& b) {
  if (!is_simple(op, a)) return false;
  const Second kind = kind_of_second(a, b);
  if (kind == Second::Other) return false;
  lazy::LazyStorage& storage = lazy::storage_of(a);
  // Writing a part of a storage, or over what is still to be read, has rules of its own.
  if (!lazy::fills_storage(a) || (kind == Second::Like && &lazy::storage_of(b) == &storage)) return false;
  lazy::Recording r;
  ir::Value v = r.row_major_value(a), w = second(r, op, v, b, kind == Second::Number);
  r.rebind_storage(storage, r.emit_typed(op, {v, w}, r.type(v)));
  return true;
}

}  // namespace lazuli::backend
