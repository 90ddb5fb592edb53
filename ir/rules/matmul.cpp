// Matrix products: shapes, derivative.
#include "ir/rules/check.h"
#include "ir/rules/rules.h"

namespace lazuli::ir {
namespace {

std::string dims_text(const Type& t) { return size_text(t.shape); }

void check_same_type(const Type& a, const Type& b) {
  if (a.dtype != b.dtype)
    type_error("expected m1 and m2 to have the same dtype, but got: ", name(a.dtype), " != ", name(b.dtype));
}

}  // namespace

void infer_matmul(std::span<const Type* const> in, const Attrs&, std::span<Type> out) {
  const Type &a = *in[0], &b = *in[1];
  if (a.rank() != b.rank() || a.rank() < 2 || a.rank() > 3)
    type_error("matmul: expected two matrices or two batches of matrices, got ", to_string(a), " and ", to_string(b));
  check_same_type(a, b);
  if (a.rank() == 2 && a.shape[1] != b.shape[0])
    type_error("mat1 and mat2 shapes cannot be multiplied (", dims_text(a), " and ", dims_text(b), ")");
  if (a.rank() == 3 && (a.shape[0] != b.shape[0] || a.shape[2] != b.shape[1]))
    type_error("Expected size for first two dimensions of batch2 tensor to be: [", a.shape[0], ", ", a.shape[2],
               "] but got: [", b.shape[0], ", ", b.shape[1], "].");
  out[0] = a;
  out[0].shape.back() = b.shape.back();
}

void infer_int_mm(std::span<const Type* const> in, const Attrs&, std::span<Type> out) {
  const Type &a = *in[0], &b = *in[1];
  if (a.rank() != 2 || b.rank() != 2 || a.shape[1] != b.shape[0])
    type_error("int_mm: expected two matrices that fit, got ", to_string(a), " and ", to_string(b));
  if ((a.dtype != DType::I8 && a.dtype != DType::U8) || b.dtype != DType::I8)
    type_error("int_mm: expected int8 or uint8, and int8, but got: ", name(a.dtype), " and ", name(b.dtype));
  out[0] = {DType::I32, Dims{a.shape[0], b.shape[1]}};
}

void infer_int4_mm(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  const Type &x = *in[0], &w = *in[1], &scales = *in[2];
  const int64_t group = attrs.number(0), block = attrs.number(1);
  if (!is_floating(x.dtype) || x.dtype == DType::F64 || w.dtype != DType::U8 || scales.dtype != x.dtype)
    type_error("int4_mm: expected floats of at most 32 bits, bytes, and scales like the floats, but got: ",
               name(x.dtype), ", ", name(w.dtype), " and ", name(scales.dtype));
  if (group <= 0 || block <= 0 || block % 2 != 0) type_error("int4_mm: no groups of ", group, " or blocks of ", block);
  if (x.rank() != 2 || w.rank() != 2 || x.shape[1] != w.shape[1] * 2 || x.shape[1] % group != 0 ||
      w.shape[0] % 2 != 0 || scales.shape != Dims{x.shape[1] / group, w.shape[0], 2})
    type_error("int4_mm: the operands' shapes do not fit: ", to_string(x), ", ", to_string(w), " and ",
               to_string(scales));
  out[0] = {x.dtype, Dims{x.shape[0], w.shape[0]}};
}

void vjp_matmul(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t needs,
                std::span<Value> out) {
  Value gy = cotangents[0];
  if (needs & 1) out[0] = b.emit(Op::matmul, {gy, b.transpose(a.inputs[1])});
  if (needs & 2) out[1] = b.emit(Op::matmul, {b.transpose(a.inputs[0]), gy});
}

int64_t terms_matmul(std::span<const Type* const> in, const Attrs&, const Type&) { return in[0]->shape.back(); }

}  // namespace lazuli::ir
