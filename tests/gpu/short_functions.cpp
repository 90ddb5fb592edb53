// Functions whose results go to reduced floating types, which have forms of their own on a GPU: over every number of
// such a type, at most one unit in the last place from the rounded exact result.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "lowering/scalar_eval.h"
#include "tests/gpu/blocks.h"
#include "tests/gpu/compare.h"
#include "tests/gpu/emulator.h"
#include "tests/gpu/kernels.h"
#include "tests/gpu/step_launch.h"
#include "tests/lowering/math_kernels.h"

namespace lazuli::testing {
namespace {

using ir::DType;
using ir::Op;
using ir::Prim;
using Bytes = std::vector<char>;
constexpr int64_t kNumbers = 1 << 16;

// A nest's result in block 1 (of as many elements as block 0).
using Run = std::function<Bytes(const lowering::PlanStep& step, const Bytes& input)>;

lowering::PlanStep step_of(const lowering::LoopNest& nest) {
  lowering::PlanStep step;
  step.loops.nest = nest;
  step.loops.sizes = {kNumbers};
  step.loops.accesses.resize(2);
  for (uint32_t a : {0u, 1u}) {
    step.loops.accesses[a].strides = {1};
    step.blocks.push_back(a);
  }
  return step;
}

Bytes every_number() {
  Bytes all(kNumbers * 2);
  for (uint32_t i = 0; i < kNumbers; ++i) {
    all[2 * i] = static_cast<char>(i & 0xff);
    all[2 * i + 1] = static_cast<char>(i >> 8);
  }
  return all;
}

// Of the reduced type, with the size of its numbers as order.
int order(uint16_t bits) { return bits & 0x8000 ? -(bits & 0x7fff) : bits; }

void check(const std::string& name, const lowering::LoopNest& nest, DType t, const Run& run,
           const std::function<double(double)>& exactly) {
  const Bytes input = every_number(), output = run(step_of(nest), input);
  ASSERT_EQ(output.size(), input.size()) << name << ": written outside its memory";
  int wrong = 0;
  for (int64_t i = 0; i < kNumbers && wrong < 5; ++i) {
    const double x = lowering::load_number(&input[2 * i], t).f, got = lowering::load_number(&output[2 * i], t).f;
    const double exact = exactly(x);
    uint16_t rounded = 0, bits = 0;
    lowering::store_number(&rounded, t, {exact, 0});
    std::memcpy(&bits, &output[2 * i], 2);
    if (std::isnan(exact) || std::isnan(got) ? std::isnan(exact) == std::isnan(got)
                                             : std::abs(order(bits) - order(rounded)) <= 1)
      continue;
    // Where an exponential or a quotient by one leaves float32's normal numbers, as it does in eager, it may be 0.
    if (std::abs(exact) < 0x1p-118 && std::abs(got) < 0x1p-118) continue;
    ++wrong;
    ADD_FAILURE() << name << " " << ir::name(t) << "(" << std::hexfloat << x << ") = " << got << ", exactly " << exact;
  }
}

void check_all(const Run& run) {
  for (DType t : {DType::BF16, DType::F16}) {
    for (int p = static_cast<int>(Prim::sqrt); p <= static_cast<int>(Prim::erfc); ++p) {
      const auto prim = static_cast<Prim>(p);
      check(ir::info(prim).name, prim_nest(prim, t), t, run, [&](double x) {
        const lowering::Number arg{x, 0};
        return lowering::evaluate(prim, DType::F64, DType::F64, &arg).f;
      });
    }
    auto row = [&](Op op, const std::function<double(double)>& exactly) {
      check(std::string(ir::name(op)), row_nest(op, t), t, run, exactly);
    };
    row(Op::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); });
    row(Op::silu, [](double x) { return x / (1 + std::exp(-x)); });
    row(Op::gelu, [](double x) { return 0.5 * x * std::erfc(-x * std::sqrt(0.5)); });
    row(Op::gelu_tanh, [](double x) {
      const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
      return x / (1 + std::exp(-2 * u));
    });
  }
}

TEST(ShortFunctions, EmulatedAreWithinOneUnit) {
  check_all([](const lowering::PlanStep& step, const Bytes& input) {
    Bytes from = input, to(input.size());
    std::vector<Bytes> unused;
    const uint64_t blocks[] = {reinterpret_cast<uint64_t>(from.data()), reinterpret_cast<uint64_t>(to.data())};
    const lowering::GpuLaunch launch = choose_launch(step);
    EmulatedKernel(step.loops.nest, launch.variant).launch(launch, gpu_arguments(step, launch.variant, blocks, {}));
    return to;
  });
}

TEST(ShortFunctions, AreWithinOneUnit) {
  std::string why;
  Gpu* gpu = Gpu::find(why);
  if (!gpu) GTEST_SKIP() << why;
  check_all([&](const lowering::PlanStep& step, const Bytes& input) {
    GpuKernels kernels(*gpu);
    GpuBlocks device(*gpu, {input, Bytes(input.size())});
    kernels.launch(kernels.prepare(step), step, device.addresses(), {});
    gpu->synchronize();
    return device.read(1);
  });
}

// The quotient has to be right where its divisor has no reciprocal.
TEST(ShortFunctions, QuotientsOfExtremeNumbers) {
  NestBuilder b(lowering::Schedule::Column, 1, 0);
  const uint16_t x = b.load(DType::BF16), y = b.load(DType::BF16);
  b.store(b.prim(Prim::div, x, y), DType::BF16);
  lowering::PlanStep step = step_of(b.nest());
  step.loops.accesses.push_back(step.loops.accesses[0]);
  step.blocks.push_back(2);
  for (const uint32_t divisor : {0x0000u, 0x0001u, 0x007fu, 0x0080u, 0x3f80u, 0x7f00u, 0x7f7fu, 0x7f80u, 0xff7fu}) {
    Bytes above = every_number(), below(above.size()), quotient(above.size());
    for (int64_t i = 0; i < kNumbers; ++i) {
      const auto bits = static_cast<uint16_t>(divisor);
      std::memcpy(&below[2 * i], &bits, 2);
    }
    const uint64_t blocks[] = {reinterpret_cast<uint64_t>(above.data()), reinterpret_cast<uint64_t>(below.data()),
                               reinterpret_cast<uint64_t>(quotient.data())};
    const lowering::GpuLaunch launch = choose_launch(step);
    EmulatedKernel(step.loops.nest, launch.variant).launch(launch, gpu_arguments(step, launch.variant, blocks, {}));
    for (int64_t i = 0; i < kNumbers; ++i) {
      uint16_t rounded = 0, bits = 0;
      const double exact =
          lowering::load_number(&above[2 * i], DType::BF16).f / lowering::load_number(&below[2 * i], DType::BF16).f;
      lowering::store_number(&rounded, DType::BF16, {exact, 0});
      std::memcpy(&bits, &quotient[2 * i], 2);
      if (std::isnan(exact))
        ASSERT_TRUE(std::isnan(lowering::load_number(&bits, DType::BF16).f)) << i << " / " << divisor;
      else
        ASSERT_LE(std::abs(order(bits) - order(rounded)), 1) << std::hex << i << " / " << divisor;
    }
  }
}

}  // namespace
}  // namespace lazuli::testing
