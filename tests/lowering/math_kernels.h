// Kernels of one formula over arrays, sweeps over all of float32, and errors in units in the last place.
#pragma once
#include <bit>
#include <cmath>
#include <functional>
#include <vector>

#include "ir/body.h"
#include "jit/kernels/compiler.h"
#include "tests/lowering/nest_builder.h"

namespace lazuli::testing {

inline lowering::LoopNest prim_nest(ir::Prim prim, ir::DType type) {
  NestBuilder b(lowering::Schedule::Column, 1, 0);
  const int arity = ir::info(prim).arity;
  uint16_t x[3] = {};
  for (int k = 0; k < arity; ++k) x[k] = b.load(type);
  const bool truth = ir::info(prim).result == ir::PrimResult::Bool;
  b.store(b.prim(prim, x[0], x[1], x[2]), truth ? ir::DType::Bool : type);
  return b.nest();
}

// An elementwise row's formula.
inline lowering::LoopNest row_nest(ir::Op op, ir::DType type) {
  NestBuilder b(lowering::Schedule::Column, 1, 0);
  const std::vector<ir::DType> operands(static_cast<size_t>(ir::info(op).arity), type);
  const ir::Program p = ir::expand_body(op, operands, type);
  std::vector<uint16_t> x, at(p.graph.size());
  for (ir::DType t : operands) x.push_back(b.load(t));
  for (size_t n = 0; n < p.graph.size(); ++n) {
    const ir::ScalarNode& s = p.graph[static_cast<uint16_t>(n)];
    at[n] = s.prim == ir::Prim::argument  ? x[s.index]
            : s.prim == ir::Prim::literal ? b.literal(s.value, s.dtype)
                                          : b.prim_as(s.prim, s.dtype, at[s.args[0]], at[s.args[1]], at[s.args[2]]);
  }
  b.store(at[p.result], type);
  return b.nest();
}

// y[i] = f(x[i]...) for dense arrays.
class ArrayKernel {
 public:
  ArrayKernel(jit::Compiler& compiler, lowering::LoopNest nest) : nest_(std::move(nest)) {
    static int count = 0;
    kernel_ = compiler.load(compiler.compile(nest_, "array" + std::to_string(count++)));
  }

  void operator()(int64_t n, std::initializer_list<const void*> inputs, void* output) const {
    const lowering::KernelArgsLayout layout(nest_);
    std::vector<int64_t> args(layout.total);
    args[0] = 4096;
    args[layout.sizes] = n;
    size_t a = layout.pointers;
    for (const void* p : inputs) args[a++] = reinterpret_cast<int64_t>(p);
    args[a] = reinterpret_cast<int64_t>(output);
    kernel_(args.data(), 0, lowering::units(nest_, args.data()));
  }

 private:
  lowering::LoopNest nest_;
  jit::LoadedKernel kernel_;
};

class PrimKernel : public ArrayKernel {
 public:
  PrimKernel(jit::Compiler& compiler, ir::Prim prim, ir::DType type) : ArrayKernel(compiler, prim_nest(prim, type)) {}
};

// Distance of a float32 result from the exact one, in units of the last place of float32 at that size.
inline double ulps(float actual, double exact) {
  if (std::isnan(exact)) return std::isnan(actual) ? 0 : INFINITY;
  const float rounded = static_cast<float>(exact);
  if (std::isinf(rounded) || std::isinf(actual)) {
    // Overflow may come one number early or late.
    if (actual == rounded) return 0;
    return std::isinf(rounded) && std::fabs(actual) == 3.40282347e38f &&
                   std::signbit(actual) == std::signbit(rounded) && std::fabs(exact) < 3.4028236e38 * (1 + 1e-6)
               ? 1
               : INFINITY;
  }
  if (actual == 0 && rounded == 0 && std::signbit(actual) != std::signbit(rounded)) return INFINITY;
  const int exponent = exact == 0 ? -126 : std::max(std::ilogb(exact), -126);
  return std::fabs(actual - exact) / std::ldexp(1.0, exponent - 23);
}

struct Worst {
  double ulps = 0;
  float x = 0, actual = 0;
  double exact = 0;
};

// Every `step`-th bit pattern, and the neighbourhoods of zero, one, powers of two and multiples of pi / 2.
inline Worst sweep(const ArrayKernel& kernel, const std::function<double(double)>& exactly, uint32_t step) {
  Worst worst;
  std::vector<float> x;
  auto flush = [&](size_t limit) {
    if (x.size() < limit) return;
    std::vector<float> y(x.size());
    kernel(static_cast<int64_t>(x.size()), {x.data()}, y.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = exactly(x[i]), error = ulps(y[i], exact);
      if (!(error <= worst.ulps)) worst = {error, x[i], y[i], exact};
    }
    x.clear();
  };
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += step) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    flush(1 << 16);
  }
  auto around = [&](float center) {
    for (int32_t d = -200; d <= 200; ++d)
      for (uint32_t sign : {0u, 0x80000000u})
        x.push_back(std::bit_cast<float>((std::bit_cast<uint32_t>(center) + d) ^ sign));
    flush(1 << 16);
  };
  for (int e = -149; e < 128; ++e) around(std::ldexp(1.0f, e));
  for (int k = 1; k < 200; ++k) around(static_cast<float>(k * 1.57079632679489661923));
  for (float edge : {0.0f, 0.3466f, 0.41421f, 0.5f, 0.625f, 0.70711f, 0.92f, 2.41421f, 4.0f, 9.01f, 10.05f, 17.33f,
                     88.7f, 89.4f, 103.97f, 1e8f, 32768.0f, INFINITY, NAN})
    around(edge);
  flush(0);
  return worst;
}

}  // namespace lazuli::testing
