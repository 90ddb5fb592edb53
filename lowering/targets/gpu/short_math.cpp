// Polynomials are from tools/fit (`short_...`).
#include "lowering/targets/gpu/short_math.h"

namespace lazuli::lowering::gpu {
namespace {
using ir::Prim;

constexpr double kLog2E = 1.4426950408889634074, kLn2 = 0.69314718055994530942;

// The reciprocal instruction takes no subnormal numbers and gives none: far from 1, both are scaled first.
Vec divided(Vec a, Vec b) {
  Vec scale = select(gt(abs(b), 0x1p64), 0x1p-64, select(lt(abs(b), 0x1p-64), 0x1p64, number(b, 1)));
  return a * scale * reciprocal_instruction(b * scale);
}

Vec exp(Vec x) { return gradual_exp2_instruction(x * kLog2E); }

// Of a >= 0: 2^P(a), P fitted to log2(erfc) up to 9.6, where erfc leaves float32. P falls to minus infinity beyond.
Vec erfc_of_positive(Vec a) {
  return exp2_instruction(horner(a, {-4.725761471036094e-08, 2.425093725832994e-06, -5.4441163229057565e-05,
                                     0.0007085882825776935, -0.006000814493745565, 0.035411540418863297,
                                     -0.15397082269191742, -0.9163432717323303, -1.628179907798767, 0.0}));
}

// exp(-a^2) t P(t), t = 1 / (1 + a / 2): C. Hastings' form (Approximations for Digital Computers, 1955).
Vec near_erfc_of_positive(Vec a) {
  Vec t = reciprocal_instruction(fma(a, 0.5, 1));
  Vec p = horner(t, {0.09285147488117218, -0.3721660077571869, 0.4091397821903229, 0.025369487702846527,
                     0.2853942811489105, 0.2770633101463318, 0.2823479473590851});
  return exp2_instruction(a * a * -kLog2E) * (t * p);
}

Vec erfc(Vec x, Precision precision) {
  Vec y = precision == Precision::Short ? erfc_of_positive(abs(x)) : near_erfc_of_positive(abs(x));
  return select(lt(x, 0), 2 - y, y);
}

Vec erf(Vec x) {
  Vec near = fma(x, horner(x * x, {0.1033276617527008, -0.37525424361228943, 0.12836724519729614}), x);
  Vec far = copysign(1 - erfc_of_positive(abs(x)), x);
  return select(lt(abs(x), 0.5), near, far);
}

// 2 / (1 + exp(2 a)): what tanh lacks to 1.
Vec rest_of_tanh(Vec a) { return reciprocal_instruction(exp2_instruction(a * (2 * kLog2E)) + 1) * 2; }

Vec tanh(Vec x) {
  Vec a = abs(x), z = x * x;
  Vec near = fma(x * z, horner(z, {0.12877129018306732, -0.3332460820674896}), x);
  return select(lt(a, 0.25), near, copysign(1 - rest_of_tanh(a), x));
}

// log(1 + f) near 1, where the instruction's absolute error counts, and elsewhere that of `whole` = 1 + f.
Vec log_near(Vec f, Vec whole) {
  Vec p = horner(f, {-0.25092920660972595, 0.33398422598838806, -0.49999892711639404});
  return select(lt(abs(f), 0x1p-4), fma(f * f, p, f), log2_instruction(whole) * kLn2);
}

}  // namespace

Vec short_primitive(Prim prim, std::span<const Vec> x, Precision precision) {
  switch (prim) {
    case Prim::div:
      return divided(x[0], x[1]);
    case Prim::reciprocal:
      return divided(number(x[0], 1), x[0]);
    case Prim::sqrt:
      return sqrt_instruction(x[0]);
    case Prim::rsqrt:
      return rsqrt_instruction(x[0]);
    case Prim::exp:
      return exp(x[0]);
    case Prim::erfc:
      return erfc(x[0], precision);
    default:
      break;
  }
  if (precision == Precision::Near) return {};
  switch (prim) {
    case Prim::log:
      return log_near(x[0] - 1, x[0]);
    case Prim::log2:
      return log_near(x[0] - 1, x[0]) * kLog2E;
    case Prim::log1p:
      return log_near(x[0], x[0] + 1);
    case Prim::tanh:
      return tanh(x[0]);
    case Prim::erf:
      return erf(x[0]);
    default:
      return {};
  }
}

Vec short_one_plus(Prim f, Vec x, Precision precision) {
  switch (f) {
    case Prim::erf:
      return erfc(-x, precision);
    case Prim::tanh: {
      if (precision == Precision::Short) return rest_of_tanh(-x);
      // Where it is a term it is one of a derivative, which wants the same for 1 - tanh^2.
      Vec rest = rest_of_tanh(abs(x));
      return select(lt(x, 0), rest, 2 - rest);
    }
    default:
      return {};
  }
}

Vec short_one_minus_square(Prim f, Vec x, Precision) {
  if (f != Prim::tanh) return {};
  Vec rest = rest_of_tanh(abs(x));
  return rest * (2 - rest);
}

}  // namespace lazuli::lowering::gpu
