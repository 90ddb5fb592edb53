// erf and erfc. erf: piecewise polynomials where an instruction looks coefficients up, else one near 0 and an
// exponential. erfc: exp(-x^2) times a polynomial in (x - 4) / (x + 4), as M. Shepherd and J. Laframboise do (Math.
// Comp. 36, 1981).
#include <span>

#include "lowering/targets/math/erf_table.h"
#include "lowering/targets/math/f64.h"

namespace lazuli::lowering::math {
namespace {

Vec erfc_wide(Vec x) {
  Vec a = clamp(abs(x), 0, 10.2);
  Vec t = (a - 4) / (a + 4);
  Vec p = horner(t, {-1.585317299421168e-05, -1.6309910257455985e-05, 0.00016365943504634183, -0.00019699345180826855,
                     -0.0007631890041254161, 0.005029444766812856, -0.016196954225834274, 0.037168111297785765,
                     -0.06633039764106984, 0.09373277656406934, -0.10103906716632256, 0.06809705662333009,
                     0.015379652170434136, -0.13962111686827655, 1.2329951186252543});
  Vec y = exp_wide(-(a * a)) * p / fma(a, 2, 1);
  return select(lt(x, 0), 2 - y, y);
}

// A polynomial around the nearest of 16 points. A magic sum's low bits are its index. What is kept at 0 is the
// argument itself.
Vec erf_by_table(Vec x, double step, double last, std::span<const std::array<double, 16>> table) {
  const double shift = x.f64() ? 0x1.8p52 : 0x1.8p23;
  Vec a = min_or_second(number(x, last), abs(x));
  Vec shifted = fma(a, 1 / step, shift), k = shifted - shift, r = fma(k, -step, a);
  Vec index = bits_of(shifted);
  auto coefficient = [&](const std::array<double, 16>& c) { return look_up(c, index); };
  Vec p = coefficient(table.front());
  for (const auto& c : table.subspan(1, table.size() - 2)) p = fma(p, r, coefficient(c));
  return copysign(fma(p, r, select(eq(k, 0), a, coefficient(table.back()))), x);
}

// A polynomial near 0, else 1 - exp(P(|x|)), P fitted to log(erfc) (tools/fit).
Vec erf_by_exp(Vec x) {
  Vec z = x * x, a = clamp(abs(x), 0, 4);
  Vec near = horner(z, {7.965175609569997e-05, -0.0008043123525567353, 0.005191911943256855, -0.026855582371354103,
                        0.11283624172210693, -0.3761262893676758, 0.12837916612625122});
  near = fma(x, near, x);
  Vec p = horner(a, {-5.225018071541854e-07, -1.4305946933745872e-05, 0.0003966892254538834, -0.004053470212966204,
                     0.024895276874303818, -0.10801203548908234, -0.6335434317588806, -1.1294341087341309,
                     0.00016039868933148682});
  Vec far = copysign(1 - exp_core(p), x);
  return select(lt(a, 0.92), near, far);
}

}  // namespace

Vec erf(Vec x) {
  if (x.ir->machine.nvptx) return x.f64() ? f64::erf(x) : erf_by_exp(x);
  if (x.f64()) return erf_by_table(x, kErfStepOfF64, kErfLastOfF64, kErfOfF64);
  return erf_by_table(x, kErfStepOfF32, kErfLastOfF32, kErfOfF32);
}

Vec erfc(Vec x) { return x.f64() ? f64::erfc(x) : in_f64(x, erfc_wide); }

}  // namespace lazuli::lowering::math
