// Functions whose results go to reduced floating types, which have forms of their own on a GPU: over every number of
// such a type, at most one unit in the last place from the rounded exact result.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "ir/interpret/scalar.h"
#include "tests/gpu/run_nest.h"
#include "tests/lowering/math_kernels.h"

namespace lazuli::testing {
namespace {

using ir::DType;
using ir::Op;
using ir::Prim;
constexpr int64_t kNumbers = 1 << 16;

Bytes every_number() {
  Bytes all(kNumbers * 2);
  for (uint32_t i = 0; i < kNumbers; ++i) {
    all[2 * i] = static_cast<char>(i & 0xff);
    all[2 * i + 1] = static_cast<char>(i >> 8);
  }
  return all;
}

// Without those whose squares leave float32, where a slope's formula gives NaN, as it does in eager.
Bytes moderate_numbers(DType t) {
  Bytes all = every_number();
  for (int64_t i = 0; i < kNumbers; ++i)
    if (std::abs(ir::load_number(&all[2 * i], t).f) > 0x1p60) ir::store_number(&all[2 * i], t, {1, 0});
  return all;
}

// Of the reduced type, with the size of its numbers as order.
int order(uint16_t bits) { return bits & 0x8000 ? -(bits & 0x7fff) : bits; }

Bytes repeated(uint16_t bits) {
  Bytes all(kNumbers * 2);
  for (int64_t i = 0; i < kNumbers; ++i) std::memcpy(&all[2 * i], &bits, 2);
  return all;
}

// Errors of `floor` and less are as good as none.
void check(const std::string& name, const lowering::LoopNest& nest, DType t, const std::vector<Bytes>& inputs,
           const Run& run, const std::function<double(double, double)>& exactly, double floor = 0) {
  const Bytes output = run(nest, kNumbers, inputs);
  ASSERT_EQ(output.size(), inputs[0].size()) << name << ": written outside its memory";
  int wrong = 0;
  for (int64_t i = 0; i < kNumbers && wrong < 5; ++i) {
    const double a = ir::load_number(&inputs[0][2 * i], t).f, b = ir::load_number(&inputs.back()[2 * i], t).f;
    const double got = ir::load_number(&output[2 * i], t).f, exact = exactly(a, b);
    uint16_t rounded = 0, bits = 0;
    ir::store_number(&rounded, t, {exact, 0});
    std::memcpy(&bits, &output[2 * i], 2);
    if (std::isnan(exact) || std::isnan(got) ? std::isnan(exact) == std::isnan(got)
                                             : std::abs(order(bits) - order(rounded)) <= 1)
      continue;
    // Where an exponential or a quotient by one leaves float32's normal numbers, as it does in eager, it may be 0.
    if (std::abs(exact) < 0x1p-118 && std::abs(got) < 0x1p-118) continue;
    if (std::abs(exact - got) <= floor) continue;
    ++wrong;
    ADD_FAILURE() << name << " " << ir::name(t) << "(" << std::hexfloat << a << ", " << b << ") = " << got
                  << ", exactly " << exact;
  }
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double normal(double x) { return 0.5 * std::erfc(-x * std::sqrt(0.5)); }
double gelu_slope(double x) { return normal(x) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI); }
double silu_slope(double x) { return logistic(x) * (1 + x * logistic(-x)); }
constexpr double kTanhScale = 1.5957691216057307118;  // 2 sqrt(2 / pi)
double gelu_tanh(double x) { return x * logistic(kTanhScale * (x + 0.044715 * x * x * x)); }
double gelu_tanh_slope(double x) {
  const double u = kTanhScale * (x + 0.044715 * x * x * x), slope = kTanhScale * (1 + 3 * 0.044715 * x * x);
  return logistic(u) * (1 + x * slope * logistic(-u));
}

void check_all(const Run& run) {
  for (DType t : {DType::BF16, DType::F16}) {
    for (int p = static_cast<int>(Prim::sqrt); p <= static_cast<int>(Prim::erfc); ++p) {
      const auto prim = static_cast<Prim>(p);
      check(ir::info(prim).name, prim_nest(prim, t), t, {every_number()}, run, [&](double x, double) {
        const ir::Number arg{x, 0};
        return ir::evaluate(prim, DType::F64, DType::F64, &arg).f;
      });
    }
    auto row = [&](Op op, double (*exactly)(double)) {
      check(std::string(ir::name(op)), row_nest(op, t), t, {every_number()}, run,
            [&](double x, double) { return exactly(x); });
    };
    row(Op::sigmoid, logistic);
    row(Op::silu, [](double x) { return x * logistic(x); });
    row(Op::gelu, [](double x) { return x * normal(x); });
    row(Op::gelu_tanh, gelu_tanh);
    // Slopes are sums whose terms cancel somewhere.
    constexpr double kFloor = 0x1p-21;
    auto slope = [&](Op op, double (*exactly)(double)) {
      uint16_t one = 0;
      ir::store_number(&one, t, {1, 0});
      check(
          std::string(ir::name(op)), row_nest(op, t), t, {repeated(one), moderate_numbers(t)}, run,
          [&](double, double x) { return exactly(x); }, kFloor);
    };
    slope(Op::gelu_backward, gelu_slope);
    slope(Op::gelu_tanh_backward, gelu_tanh_slope);
    slope(Op::silu_backward, silu_slope);
  }
  // Quotients have to be right where their divisors have no reciprocals.
  for (uint16_t divisor : {0x0000, 0x0001, 0x007f, 0x0080, 0x3f80, 0x7f00, 0x7f7f, 0x7f80, 0xff7f})
    check("div", prim_nest(Prim::div, DType::BF16), DType::BF16, {every_number(), repeated(divisor)}, run,
          [](double a, double b) { return a / b; });
}

TEST(ShortFunctions, EmulatedAreWithinOneUnit) { check_all(run_emulated); }

TEST(ShortFunctions, AreWithinOneUnit) {
  std::string why;
  Gpu* gpu = Gpu::find(why);
  if (!gpu) GTEST_SKIP() << why;
  check_all(run_on(*gpu));
}

}  // namespace
}  // namespace lazuli::testing
