// Running sums and products.
#include <ATen/WrapDimUtils.h>
#include "backend/record/dispatch.h"
#include "backend/record/operands.h"
#include "backend/record/registration.h"

namespace lazuli::backend {
namespace {

using at::ScalarType;
using at::Tensor;

// None: torch's kernel computes it.
std::optional<Tensor> scan(ir::Op op, const Tensor& x, int64_t dim, std::optional<ScalarType> asked) {
  const ScalarType type = asked ? *asked : c10::isIntegralType(x.scalar_type(), true) ? at::kLong : x.scalar_type();
  if (!is_ours(x) || x.dim() == 0 || type == at::kBool || !ir::is_native(lazy::to_ir(type))) return {};
  dim = at::maybe_wrap_dim(dim, x.dim());
  lazy::Recording r;
  return r.tensor(r.emit(op, {r.convert(r.value(x), lazy::to_ir(type))}, {{dim}}), type);
}

Tensor cumsum(const Tensor& x, int64_t dim, std::optional<ScalarType> asked) {
  if (auto y = scan(ir::Op::cumsum, x, dim, asked)) return *std::move(y);
  return fall_back<Tensor>("aten::cumsum", "", x, dim, asked);
}
Tensor cumprod(const Tensor& x, int64_t dim, std::optional<ScalarType> asked) {
  if (auto y = scan(ir::Op::cumprod, x, dim, asked)) return *std::move(y);
  return fall_back<Tensor>("aten::cumprod", "", x, dim, asked);
}

}  // namespace

void register_scans(torch::Library& m) {
  m.impl("cumsum", cumsum);
  m.impl("cumprod", cumprod);
}

}  // namespace lazuli::backend
