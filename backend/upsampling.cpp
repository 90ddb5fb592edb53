// Enlarging images by whole factors: each element is repeated, so that this is a view's copy, and its transpose a sum.
#include "backend/dispatch.h"
#include "backend/operands.h"
#include "backend/registration.h"

namespace lazuli::backend {
namespace {

using at::IntArrayRef;
using at::Tensor;
using std::optional;

// Whether `large` is `small` times a whole factor, and the scale, where given, is that factor.
bool is_multiple(int64_t large, int64_t small, optional<double> scale) {
  if (small <= 0 || large <= 0 || large % small) return false;
  return !scale || *scale == static_cast<double>(large / small);
}
bool repeats(const Tensor& x, IntArrayRef small, IntArrayRef large, optional<double> height, optional<double> width) {
  return is_ours(x) && small.size() == 4 && small[0] > 0 && small[1] > 0 && is_multiple(large[0], small[2], height) &&
         is_multiple(large[1], small[3], width) && x.suggest_memory_format() == c10::MemoryFormat::Contiguous;
}

Tensor nearest(const Tensor& x, IntArrayRef size, optional<double> height, optional<double> width) {
  if (x.dim() != 4 || size.size() != 2 || !repeats(x, x.sizes(), size, height, width))
    return fall_back<Tensor>("aten::upsample_nearest2d", "", x, size, height, width);
  const int64_t n = x.size(0), c = x.size(1), h = x.size(2), w = x.size(3);
  lazy::Recording r;
  ir::Value v = r.reshape(r.value(x), ir::Dims{n, c, h, 1, w, 1});
  v = r.broadcast(v, ir::Dims{n, c, h, size[0] / h, w, size[1] / w});
  return r.tensor(r.reshape(v, ir::Dims{n, c, size[0], size[1]}), x.scalar_type());
}

Tensor nearest_backward(const Tensor& g, IntArrayRef size, IntArrayRef input, optional<double> height, optional<double> width) {
  if (g.dim() != 4 || size.size() != 2 || !c10::isFloatingType(g.scalar_type()) || !repeats(g, input, size, height, width))
    return fall_back<Tensor>("aten::upsample_nearest2d_backward", "", g, size, input, height, width);
  lazy::Recording r;
  const int64_t h = input[2], w = input[3];
  ir::Value v = r.reshape(r.value(g), ir::Dims{input[0], input[1], h, size[0] / h, w, size[1] / w});
  return r.tensor(r.sum(v, ir::Dims{3, 5}, false), g.scalar_type());
}

}  // namespace

void register_upsampling(torch::Library& m) {
  m.impl("upsample_nearest2d", nearest);
  m.impl("upsample_nearest2d_backward", nearest_backward);
}

}  // namespace lazuli::backend
