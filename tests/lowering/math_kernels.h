// One-primitive kernels over arrays, and errors in units in the last place.
#pragma once
#include <cmath>
#include <vector>

#include "jit/compiler.h"
#include "tests/lowering/nest_builder.h"

namespace lazuli::testing {

// y[i] = prim(x[i]...) for dense arrays of one type.
class PrimKernel {
 public:
  PrimKernel(jit::Compiler& compiler, ir::Prim prim, ir::DType type) {
    NestBuilder b(lowering::Schedule::Column, 1, 0);
    const int arity = ir::info(prim).arity;
    uint16_t x[3] = {};
    for (int k = 0; k < arity; ++k) x[k] = b.load(type);
    const bool truth = ir::info(prim).result == ir::PrimResult::Bool;
    b.store(b.prim(prim, x[0], x[1], x[2]), truth ? ir::DType::Bool : type);
    nest_ = b.nest();
    static int count = 0;
    kernel_ = compiler.load(compiler.compile(nest_, "prim" + std::to_string(count++)));
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
  lowering::KernelFn kernel_;
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

}  // namespace lazuli::testing
