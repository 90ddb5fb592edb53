// Operators whose eager kernels for the CPU care that an output shares memory with an input, checked here before they
// are recorded or run.
#include <ATen/ops/col2im.h>
#include <ATen/ops/im2col.h>
#include "backend/record/dispatch.h"
#include "backend/record/operands.h"
#include "backend/record/registration.h"
#include "lazy/support/dimension_names.h"

namespace lazuli::backend {
namespace {

using at::IntArrayRef;
using at::Tensor;

Tensor& cat_out(const at::ITensorListRef& tensors, int64_t dim, Tensor& out) {
  std::vector<Tensor> all;
  for (const Tensor& t : tensors.materialize()) all.push_back(t);
  lazy::NamesOfResult(out, tensors).of([&] { fall_back<Tensor>("aten::cat", "out", all, dim, out); });
  return out;
}

// These may write over their input, which is read before.
Tensor& im2col_out(const Tensor& x, IntArrayRef kernel, IntArrayRef dilation, IntArrayRef padding, IntArrayRef stride,
                   Tensor& out) {
  if (!out.is_same(x)) return fall_back<Tensor>("aten::im2col", "out", x, kernel, dilation, padding, stride, out), out;
  return store(out, at::im2col(x, kernel, dilation, padding, stride));
}
Tensor& col2im_out(const Tensor& x, IntArrayRef size, IntArrayRef kernel, IntArrayRef dilation, IntArrayRef padding,
                   IntArrayRef stride, Tensor& out) {
  if (!out.is_same(x))
    return fall_back<Tensor>("aten::col2im", "out", x, size, kernel, dilation, padding, stride, out), out;
  return store(out, at::col2im(x, size, kernel, dilation, padding, stride));
}

}  // namespace

void register_overlapping_outputs(torch::Library& m) {
  m.impl("cat.out", cat_out);
  m.impl("im2col.out", im2col_out);
  m.impl("col2im.out", col2im_out);
}

}  // namespace lazuli::backend
