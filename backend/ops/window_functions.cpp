// Kaiser's window by Bessel functions that are scaled by the exponential, so that no steepness overflows: the window of
// an infinite one is a single one between zeros.
#include <cmath>
#include <ATen/ops/arange.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/special_i0e.h>
#include "backend/record/dispatch.h"
#include "backend/record/registration.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using c10::Device;
using c10::Layout;
using c10::ScalarType;
using std::optional;

// i0(b s) / i0(b), where s = sqrt(1 - x * x) and x goes from -1 to 1 over `length` points, of which the first `shown`
// are wanted: i0e(b s) / i0e(b) * exp(b (s - 1)). The middle is 1 whatever b is.
Tensor kaiser(int64_t shown, int64_t length, double beta, const at::TensorOptions& options) {
  const double half = static_cast<double>(length - 1) / 2;
  const Tensor place = at::arange(shown, options) - half;
  if (!std::isfinite(beta)) return (place == 0).to(options.dtype());
  const Tensor s = ((half - place) * (half + place)).sqrt() / half, below = (place / half).square() / (s + 1);
  return at::special_i0e(s * beta) / at::special_i0e(at::full({}, beta, options)) * at::exp(below * -beta);
}

Tensor window_beta(int64_t length, bool periodic, double beta, optional<ScalarType> dtype, optional<Layout> layout,
                   optional<Device> device, optional<bool> pinned) {
  const ScalarType type = dtype.value_or(c10::get_default_dtype_as_scalartype());
  const bool strided = layout.value_or(Layout::Strided) == Layout::Strided && !pinned.value_or(false);
  const bool known = c10::isFloatingType(type) || c10::isComplexType(type);
  if (!strided || !known || c10::isFloat8Type(type) || length < 0 || std::isnan(beta))
    return fall_back<Tensor>("aten::kaiser_window", "beta", length, periodic, beta, dtype, layout, device, pinned);
  const auto options = at::TensorOptions().dtype(type).device(device.value_or(Device(c10::kPrivateUse1)));
  if (length < 2) return at::ones({length}, options);
  return kaiser(length, length + periodic, std::abs(beta), options.dtype(c10::kDouble)).to(type);
}
Tensor window_periodic(int64_t length, bool periodic, optional<ScalarType> dtype, optional<Layout> layout,
                       optional<Device> device, optional<bool> pinned) {
  return window_beta(length, periodic, 12.0, dtype, layout, device, pinned);
}
Tensor window(int64_t length, optional<ScalarType> dtype, optional<Layout> layout, optional<Device> device,
              optional<bool> pinned) {
  return window_beta(length, true, 12.0, dtype, layout, device, pinned);
}

}  // namespace

void register_windows(torch::Library& m) {
  m.impl("kaiser_window", window);
  m.impl("kaiser_window.periodic", window_periodic);
  m.impl("kaiser_window.beta", window_beta);
}

}  // namespace lazuli::backend
