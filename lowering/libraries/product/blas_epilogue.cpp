#include "lowering/libraries/product/blas_epilogue.h"
#include "lowering/libraries/post_ops.h"
#include "lowering/libraries/product/blas_product.h"

namespace lazuli::lowering {
namespace {

using ir::DType;

// One packed row that every row of the result gets.
bool is_bias(const Layout& operand) {
  const size_t last = operand.shape.size() - 1;
  for (size_t d = 0; d < last; ++d)
    if (operand.shape[d] != 1 && operand.strides[d] != 0) return false;
  return operand.shape[last] == 1 || operand.strides[last] == 1;
}

bool is_whole(const Layout& operand) {
  for (size_t d = 0; d < operand.shape.size(); ++d)
    if (operand.shape[d] != 1 && operand.strides[d] == 0) return false;
  return true;
}

}  // namespace

std::optional<BlasEpilogue> blas_epilogue(DType type, std::span<const PostOp> post_ops, const Layout& out) {
  // For float64 cuBLAS promises only alpha and c, and our alpha has not enough digits.
  const bool f64 = type == DType::F64;
  BlasEpilogue e;
  enum { Scaling, Added, Activated } done = Scaling;
  for (const PostOp& op : post_ops) {
    switch (op.kind) {
      case PostOp::Scale:
        if (done != Scaling || f64) return {};
        e.alpha *= static_cast<float>(op.alpha);
        break;
      case PostOp::Add: {
        if (done != Scaling || op.operand.dtype != out.dtype) return {};
        const Layout operand = broadcast_to(op.operand, out.shape);
        if (is_bias(operand) && !f64)
          e.bias = true;
        else if (is_whole(operand))
          e.addend = operand;
        else
          return {};
        done = Added;
        break;
      }
      case PostOp::Relu:
        if (done == Activated || f64) return {};
        e.activation = BlasEpilogue::Relu, done = Activated;
        break;
      case PostOp::GeluTanh:
        if (done == Activated || !ir::is_reduced_floating(out.dtype)) return {};
        e.activation = BlasEpilogue::GeluTanh, done = Activated;
        break;
      default:
        return {};
    }
  }
  if (!blas_writes(out, e.addend ? &*e.addend : nullptr, e.bias)) return {};
  return e;
}

}  // namespace lazuli::lowering
