// Formulas at the values where torch's definition decides: NaN, infinities, signed zero, integers, kinks. What torch
// gives is written out.
#include "tests/ir/support.h"

namespace lazuli::ir::testing {
namespace {

constexpr double kInf = INFINITY;

double apply(const std::string& op, const std::string& dtype, std::vector<double> numbers, std::string result = "") {
  if (result.empty()) result = dtype;
  std::string text, names;
  for (size_t i = 0; i < numbers.size(); ++i) {
    text += "%" + std::to_string(i) + " : " + dtype + "[] = input [position=" + std::to_string(i) + "]\n";
    names += (i ? ", %" : "%") + std::to_string(i);
  }
  std::string y = "%" + std::to_string(numbers.size());
  return evaluate(text + y + " : " + result + "[] = " + op + " " + names + "\nreturn " + y, std::move(numbers));
}

TEST(Formulas, NanPropagates) {
  for (const char* op : {"relu", "sigmoid", "gelu", "silu", "mish", "hardswish", "sqrt", "floor", "atanh"})
    EXPECT_TRUE(std::isnan(apply(op, "f32", {NAN}))) << op;
  for (const char* op : {"minimum", "maximum", "clamp_min", "clamp_max", "pow", "atan2"})
    EXPECT_TRUE(std::isnan(apply(op, "f32", {NAN, 2}))) << op;
  EXPECT_EQ(apply("fmin", "f32", {NAN, 2}), 2);
  EXPECT_EQ(apply("fmax", "f32", {2, NAN}), 2);
  EXPECT_EQ(apply("sign", "f32", {NAN}), 0);
  EXPECT_EQ(apply("pow", "f32", {NAN, 0}), 1);
}

TEST(Formulas, ExtremesDoNotOverflow) {
  EXPECT_EQ(apply("silu", "f32", {-200}), 0);
  EXPECT_EQ(apply("mish", "f32", {200}), 200);
  EXPECT_EQ(apply("log_sigmoid", "f32", {-200}), -200);
  EXPECT_NEAR(apply("asinh", "f32", {1e30}), 69.77069997, 1e-5);
  EXPECT_NEAR(apply("acosh", "f32", {1e30}), 69.77069997, 1e-5);
  EXPECT_EQ(apply("asinh", "f32", {-kInf}), -kInf);
  EXPECT_FLOAT_EQ(apply("hypot", "f32", {3e30, 4e30}), 5e30);
  EXPECT_EQ(apply("hypot", "f32", {kInf, NAN}), kInf);
}

TEST(Formulas, SignedZero) {
  EXPECT_TRUE(std::signbit(apply("asinh", "f32", {-0.0})));
  EXPECT_EQ(apply("copysign", "f32", {2, -0.0}), -2);
  EXPECT_TRUE(std::signbit(apply("round", "f32", {-0.5})));
}

TEST(Formulas, DivisionsFollowTheirRounding) {
  EXPECT_EQ(apply("floor_divide", "i64", {-7, 2}), -4);
  EXPECT_EQ(apply("trunc_divide", "i64", {-7, 2}), -3);
  EXPECT_EQ(apply("remainder", "i64", {-7, 2}), 1);
  EXPECT_EQ(apply("fmod", "i64", {-7, 2}), -1);
  EXPECT_EQ(apply("floor_divide", "f32", {5, 0}), kInf);
  EXPECT_EQ(apply("floor_divide", "f32", {-1, kInf}), -1);
  EXPECT_EQ(apply("remainder", "f32", {-1, kInf}), kInf);
  EXPECT_TRUE(std::isnan(apply("remainder", "f32", {5, 0})));
  EXPECT_EQ(apply("floor_divide", "i64", {5, 0}), 0);
}

TEST(Formulas, IntegersWrap) {
  EXPECT_EQ(apply("add", "i8", {127, 1}), -128);
  EXPECT_EQ(apply("mul", "u8", {200, 2}), 144);
  EXPECT_EQ(apply("neg", "i8", {-128}), -128);
  EXPECT_EQ(apply("floor_divide", "i8", {-128, -1}), -128);
  EXPECT_EQ(apply("pow", "i64", {-2, 3}), -8);
  EXPECT_EQ(apply("pow", "i64", {-1, -3}), -1);
  EXPECT_EQ(apply("pow", "i64", {2, -1}), 0);
  EXPECT_EQ(apply("floor", "i32", {-3}), -3);
}

TEST(Formulas, Shifts) {
  EXPECT_EQ(apply("shift_left", "i64", {2, 64}), 0);
  EXPECT_EQ(apply("shift_left", "i64", {-8, 3}), -64);
  EXPECT_EQ(apply("shift_right", "i64", {-8, 70}), -1);
  EXPECT_EQ(apply("shift_right", "u8", {255, 1}), 127);
}

TEST(Formulas, Kinks) {
  EXPECT_EQ(apply("threshold_backward", "f32", {5, 0, 0}), 0);
  EXPECT_EQ(apply("hardswish_backward", "f32", {1, 3}), 1);
  EXPECT_EQ(apply("hardswish_backward", "f32", {1, -3}), 0);
  EXPECT_EQ(apply("hardsigmoid_backward", "f32", {1, 3}), 0);
  EXPECT_EQ(apply("leaky_relu_backward", "f32", {1, 0, 0.25}), 0.25);
  EXPECT_EQ(apply("softplus_backward", "f32", {1, 1000, 1, 20}), 1);
}

// An infinite cotangent meets 0 only where torch's formula multiplies by it.
TEST(Formulas, MaskedCotangentsAreZero) {
  EXPECT_EQ(apply("threshold_backward", "f32", {kInf, -1, 0}), 0);
  EXPECT_EQ(apply("hardtanh_backward", "f32", {kInf, 3, -1, 1}), 0);
  EXPECT_EQ(apply("gelu_backward", "f64", {-kInf, -6}), kInf);
  EXPECT_EQ(apply("elu_backward", "f64", {-kInf, -200, 2, 3, 1}), -kInf);
}

}  // namespace
}  // namespace lazuli::ir::testing
