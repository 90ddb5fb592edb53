#include "backend/record/complex_numbers.h"

#include <ATen/ops/view_as_complex.h>
#include "backend/record/dispatch.h"
#include "backend/record/elementwise.h"
#include "lazy/record/tape.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using ir::Op;

bool is_of_parts(c10::ScalarType type) { return type == c10::kComplexFloat || type == c10::kComplexDouble; }

bool is_row_operand(const Operand& o) {
  if (!o.tensor) return true;
  if (!o.tensor->defined()) return false;
  const bool is_known = is_of_parts(o.tensor->scalar_type()) || ir::is_native(lazy::to_ir(o.tensor->scalar_type()));
  return has_parts(*o.tensor) || is_ours(*o.tensor) || (is_known && is_number(*o.tensor));
}

bool is_complex(const Operand& o) { return o.tensor ? o.tensor->is_complex() : o.number.isComplex(); }

// Row and result of these operands.
struct ComplexPlan {
  Op row;
  c10::ScalarType common, part;
  ir::Dims shape;
  lazy::Order order;

  bool result_is_real() const { return row == Op::complex_abs; }
  c10::ScalarType result() const { return result_is_real() ? part : common; }
};

// False: eager has its own answer.
bool plan_complex(Op row, const Operands& operands, ComplexPlan& p) {
  const auto is_ours_or_has_parts = [](const Operand& o) { return o.tensor && o.tensor->is_privateuseone(); };
  if (!std::ranges::all_of(operands, is_row_operand) || std::ranges::none_of(operands, is_ours_or_has_parts))
    return false;
  p.row = row;
  p.common = promoted_type(operands);
  if (row == Op::polar) p.common = c10::toComplexType(p.common);
  if (!is_of_parts(p.common)) return false;
  if (lazy::Tape::current()) throw NotTaped{};
  p.part = c10::toRealValueType(p.common);
  return true;
}

lazy::Order with_parts(lazy::Order order) {
  if (!order.empty()) order.push_back(static_cast<int64_t>(order.size()));
  return order;
}

ir::Value apply_row(lazy::Recording& r, const ComplexPlan& p, const Operands& operands, const lazy::Order& order) {
  const ir::DType type = lazy::to_ir(p.part);
  c10::SmallVector<ir::Value, 2> in;
  int64_t real = 0;
  for (const Operand& o : operands) {
    if (!is_complex(o)) {
      real |= int64_t{1} << in.size();
      in.push_back(read(r, o, type, order));
    } else if (o.tensor && has_parts(*o.tensor)) {
      const Tensor parts = parts_of(*o.tensor);
      in.push_back(read(r, {&parts, {}}, type, with_parts(order)));
    } else {
      in.push_back(complex_number(r, o.tensor ? number_of(*o.tensor) : o.number, type));
    }
  }
  ir::Attrs attrs;
  if (!ir::info(p.row).attrs[0].empty()) attrs.add(real);
  return r.emit(p.row, std::span<const ir::Value>(in.data(), in.size()), std::move(attrs), {});
}

// What `op` is of complex numbers, over which operands; kNoOp: nothing that is recorded.
Op row_of(Op op, Operands& operands) {
  switch (op) {
    case Op::mul:
      return Op::complex_mul;
    case Op::div:
      return Op::complex_div;
    case Op::reciprocal:
      operands.insert(operands.begin(), {nullptr, 1});
      return Op::complex_div;
    case Op::exp:
      return Op::complex_exp;
    default:
      return ir::kNoOp;
  }
}

// Whether the operator is that of each part.
bool is_by_parts(Op op) { return op == Op::neg; }

}  // namespace

bool has_parts(const Tensor& x) {
  return is_of_parts(x.scalar_type()) && nameless_on_device(*x.unsafeGetTensorImpl()) && x.layout() == c10::kStrided &&
         !x.is_conj() && !x.is_neg();
}

Tensor parts_of(const Tensor& x) {
  ir::Dims sizes = lazy::to_dims(x.sizes()), strides;
  for (int64_t s : x.strides()) strides.push_back(2 * s);
  sizes.push_back(2);
  strides.push_back(1);
  Tensor parts = lazy::make_view(x, lazy::to_ref(sizes), lazy::to_ref(strides), 2 * x.storage_offset());
  parts.unsafeGetTensorImpl()->set_storage_and_dtype(parts.storage(),
                                                     c10::scalarTypeToTypeMeta(c10::toRealValueType(x.scalar_type())));
  return parts;
}

ir::Value complex_number(lazy::Recording& r, const c10::Scalar& number, ir::DType type) {
  const c10::complex<double> z = number.toComplexDouble();
  const ir::Value re = r.reshape(r.number(z.real(), type), ir::Dims{1}),
                  im = r.reshape(r.number(z.imag(), type), ir::Dims{1});
  return r.emit(Op::cat, {re, im}, ir::Attrs{{0}});
}

Tensor complex_row(Op row, const Operands& operands) {
  ComplexPlan p;
  if (!plan_complex(row, operands, p)) return {};
  p.shape = broadcast_shape(operands);
  p.order = result_order(operands, p.shape, p.common);
  lazy::Recording r;
  const ir::Value v = apply_row(r, p, operands, p.order);
  Tensor out;
  if (p.result_is_real()) {
    out = r.tensor(v, p.part, p.order);
  } else {
    out = r.tensor(v, p.common, lazy::to_ref(p.shape), lazy::to_ref(ir::contiguous_strides(p.shape)));
    take_order(out, p.order);
  }
  take_strides_of_ones(out, operands, p.common);
  return out;
}

// (Torch's complex type for bfloat16 is that of float32.)
bool may_be_part(const Tensor& x) {
  return is_floating(x) && (x.scalar_type() == c10::kFloat || x.scalar_type() == c10::kDouble);
}

Tensor complex_of(const Tensor& re, const Tensor& im) {
  if (!may_be_part(re) || !may_be_part(im) || re.scalar_type() != im.scalar_type()) return {};
  if (lazy::Tape::current()) throw NotTaped{};
  const Operands operands{{&re, {}}, {&im, {}}};
  const ir::Dims shape = broadcast_shape(operands);
  const lazy::Order order = result_order(operands, shape);
  ir::Dims part;
  for (size_t d = 0; d < shape.size(); ++d) part.push_back(shape[order.empty() ? d : static_cast<size_t>(order[d])]);
  lazy::Recording r;
  c10::SmallVector<ir::Value, 2> parts;
  for (const Operand& o : operands) {
    ir::Value v = r.broadcast(read(r, o, lazy::to_ir(re.scalar_type()), order), part);
    ir::Dims with_one = part;
    with_one.push_back(1);
    parts.push_back(r.reshape(v, with_one));
  }
  const ir::Value v = r.emit(Op::cat, {parts[0], parts[1]}, ir::Attrs{{static_cast<int64_t>(shape.size())}});
  Tensor out = r.tensor(v, c10::toComplexType(re.scalar_type()), lazy::to_ref(shape),
                        lazy::to_ref(ir::contiguous_strides(shape)));
  take_order(out, order);
  take_strides_of_ones(out, operands);
  return out;
}

bool complex_row_into(const Tensor& out, Op row, const Operands& operands, bool resize) {
  ComplexPlan p;
  if (!plan_complex(row, operands, p)) return false;
  if (p.result_is_real() ? !is_ours(out) : !has_parts(out)) return false;
  if (overlaps_itself(out) || out.scalar_type() != p.result()) return false;
  check_overlap(out, operands);
  p.shape = broadcast_shape(operands);
  if (!ir::equal(p.shape, out.sizes())) {
    if (!resize) return false;
    for (const Operand& o : operands)
      TORCH_CHECK(!o.tensor || !o.tensor->is_same(out), "output with shape ", out.sizes(),
                  " doesn't match the broadcast shape ", lazy::to_ref(p.shape));
    Tensor resized = out;
    store(resized, complex_row(row, operands));
    return true;
  }
  lazy::Order order;
  if (!out.is_contiguous()) lazy::memory_order(out.sizes(), out.strides(), order);
  lazy::Recording r;
  ir::Value v = apply_row(r, p, operands, order);
  const Tensor written = p.result_is_real() ? out : parts_of(out);
  if (!p.result_is_real()) order = with_parts(order);
  if (!order.empty()) {
    lazy::Order inverse(order.size(), 0);
    for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = static_cast<int64_t>(i);
    v = r.permute(v, inverse);
  }
  r.write(written, v);
  return true;
}

Tensor complex_elementwise(Op op, const Operands& operands) {
  if (std::ranges::none_of(operands, is_complex)) return {};
  if (is_by_parts(op)) {
    if (!has_parts(*operands[0].tensor)) return {};
    if (lazy::Tape::current()) throw NotTaped{};
    const Tensor parts = parts_of(*operands[0].tensor);
    const Tensor result = elementwise(op, {{&parts, {}}});
    Tensor out = at::view_as_complex(result);
    take_strides_of_ones(out, operands);
    return out;
  }
  Operands of_row = operands;
  const Op row = row_of(op, of_row);
  return row == ir::kNoOp ? Tensor() : complex_row(row, of_row);
}

bool complex_elementwise_into(const Tensor& out, Op op, const Operands& operands, bool resize) {
  if (std::ranges::none_of(operands, is_complex)) return false;
  if (is_by_parts(op)) {
    if (!has_parts(*operands[0].tensor) || !has_parts(out) || out.scalar_type() != operands[0].tensor->scalar_type() ||
        out.sizes() != operands[0].tensor->sizes())
      return false;
    if (lazy::Tape::current()) throw NotTaped{};
    const Tensor parts = parts_of(*operands[0].tensor);
    return elementwise_into(out.is_same(*operands[0].tensor) ? parts : parts_of(out), op, {{&parts, {}}}, resize);
  }
  Operands of_row = operands;
  const Op row = row_of(op, of_row);
  return row != ir::kNoOp && complex_row_into(out, row, of_row, resize);
}

}  // namespace lazuli::backend
