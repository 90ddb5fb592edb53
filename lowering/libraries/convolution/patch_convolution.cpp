#include "lowering/libraries/convolution/patch_convolution.h"
#include "lowering/libraries/staged_call.h"
#include "lowering/libraries/strided_copy.h"

namespace lazuli::lowering {
namespace {

bool applies(const onednn::Convolution& c) {
  if (c.pass == onednn::Pass::Forward || c.groups != 1) return false;
  int64_t taps = 1;
  for (size_t d = 0; d < c.stride.size(); ++d) {
    const int64_t kernel = c.w.shape[d + 2];
    if (c.stride[d] != kernel || c.padding[d] != 0 || c.dilation[d] != 1) return false;
    if (c.x.shape[d + 2] != c.y.shape[d + 2] * kernel) return false;
    taps *= kernel;
  }
  return taps > 4;
}

// x as [N, patches..., C, kernel...].
Layout patches_of(const onednn::Convolution& c) {
  Layout p{c.x.dtype, {c.x.shape[0]}, {c.x.strides[0]}};
  const auto add = [&](int64_t size, int64_t stride) { p.shape.push_back(size), p.strides.push_back(stride); };
  for (size_t d = 2; d < c.x.shape.size(); ++d) add(c.y.shape[d], c.x.strides[d] * c.stride[d - 2]);
  add(c.x.shape[1], c.x.strides[1]);
  for (size_t d = 2; d < c.x.shape.size(); ++d) add(c.w.shape[d], c.x.strides[d]);
  return p;
}

Layout matrix(ir::DType t, int64_t rows, int64_t columns) { return dense_layout(t, {rows, columns}); }
Layout transposed(Layout l) {
  std::swap(l.shape[0], l.shape[1]);
  std::swap(l.strides[0], l.strides[1]);
  return l;
}

}  // namespace

std::unique_ptr<LibraryCall> make_patch_convolution(const onednn::Convolution& c, Effort effort) {
  if (!applies(c)) return nullptr;
  const Layout patches = patches_of(c), dense_patches = dense_layout(c.x.dtype, patches.shape);
  const Layout gy = channels_last_layout(c.y.dtype, c.y.shape), w = dense_layout(c.w.dtype, c.w.shape);
  const int64_t channels = c.y.shape[1], taps = ir::product(c.w.shape) / channels,
                count = ir::product(c.y.shape) / channels;
  const Layout gy_matrix = matrix(c.y.dtype, count, channels), patch_matrix = matrix(c.x.dtype, count, taps);
  const Layout w_matrix = matrix(c.w.dtype, channels, taps);

  Staging staging;
  if (c.pass == onednn::Pass::InputGrad) {
    staging.operands = {Staging::Copy{c.y, gy}, Staging::Copy{c.w, w}};
    staging.result = {dense_patches, patches};
    return make_staged_call(make_matmul(gy_matrix, w_matrix, patch_matrix, {}, effort), std::move(staging));
  }
  if (c.swapped) {  // operands x, gy; the product of the transposed matrices gives the transposed gradient
    staging.operands = {Staging::Copy{patches, dense_patches}, Staging::Copy{c.y, gy}};
    staging.result = {w, c.w};
    return make_staged_call(make_matmul(transposed(patch_matrix), gy_matrix, transposed(w_matrix), {}, effort),
                            std::move(staging));
  }
  staging.operands = {Staging::Copy{c.y, gy}, Staging::Copy{patches, dense_patches}};
  staging.result = {w, c.w};
  return make_staged_call(make_matmul(transposed(gy_matrix), patch_matrix, w_matrix, {}, effort), std::move(staging));
}

}  // namespace lazuli::lowering
