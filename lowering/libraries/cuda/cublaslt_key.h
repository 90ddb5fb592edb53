// What decides which of cuBLASLt's algorithms is right for a product. Equal keys share one choice in the process.
#pragma once
#include <array>
#include <cstdint>
#include "lowering/libraries/cuda/cublaslt.h"
#include "lowering/libraries/product/blas_epilogue.h"
#include "lowering/libraries/product/blas_product.h"

namespace lazuli::lowering {

// Powers of two, in bytes, up to 256.
struct Alignments {
  uint32_t a = 256, b = 256, c = 256, d = 256, bias = 256;
  friend bool operator==(const Alignments&, const Alignments&) = default;
  bool cover(const Alignments& o) const { return a >= o.a && b >= o.b && c >= o.c && d >= o.d && bias >= o.bias; }
};

// That of an address and of all that lie a multiple of `steps` bytes from it; `steps` is the bitwise or of the steps.
inline uint32_t alignment(const void* address, uint64_t steps) {
  const uint64_t bits = reinterpret_cast<uintptr_t>(address) | steps | 256;
  return static_cast<uint32_t>(bits & -bits);
}

// Everything of a call but addresses.
struct CublasLtProblem {
  ir::DType type, out_type;
  BlasProduct product;
  BlasEpilogue epilogue;
  MatmulSettings settings;
};

// Whether partial sums of a split product may be kept in the result's type.
bool reduces_in_result_type(const CublasLtProblem& p);

struct CublasLtKey {
  std::array<uint64_t, 36> facts{};
  friend bool operator==(const CublasLtKey&, const CublasLtKey&) = default;
};
struct CublasLtKeyHash {
  size_t operator()(const CublasLtKey& key) const;
};
// The values of alpha, and whether a product is swapped, decide nothing.
CublasLtKey cublaslt_key(const CublasLtProblem& p, const Alignments& alignments, const void* context);

}  // namespace lazuli::lowering
