// cuBLASLt's functions, found in the library at run time. This is the one file that includes its header.
//
// cublasLt.h only names CUDA's half types, but includes their headers, which need headers of CUDA's compiler that none
// of torch's packages has. Their include guards keep them out.
#pragma once
#define __CUDA_FP16_H__
#define __CUDA_BF16_H__
struct __half;
struct __nv_bfloat16;
#include <stdexcept>
#include <string>
#include <cublasLt.h>
#include "lowering/libraries/shared_library.h"

namespace lazuli::lowering::cublaslt {

// clang-format off
#define LAZULI_CUBLASLT_FUNCTIONS(X)                                                                                  \
  X(cublasLtCreate) X(cublasLtGetStatusName) X(cublasLtMatmulDescCreate) X(cublasLtMatmulDescDestroy)                 \
  X(cublasLtMatmulDescSetAttribute) X(cublasLtMatrixLayoutCreate) X(cublasLtMatrixLayoutDestroy)                      \
  X(cublasLtMatrixLayoutSetAttribute) X(cublasLtMatmulPreferenceCreate) X(cublasLtMatmulPreferenceDestroy)            \
  X(cublasLtMatmulPreferenceSetAttribute) X(cublasLtMatmulAlgoGetHeuristic) X(cublasLtMatmul)
// clang-format on

struct Api {
  SharedLibrary library{"libcublasLt.so.13"};
#define X(name) decltype(&::name) name;
  LAZULI_CUBLASLT_FUNCTIONS(X)
#undef X
  Api() {
#define X(name) library.find(name, #name);
    LAZULI_CUBLASLT_FUNCTIONS(X)
#undef X
  }
};

inline const Api& api() {
  static const Api a;
  return a;
}

inline void check(cublasStatus_t status, const std::string& what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error("cuBLASLt: " + std::string(api().cublasLtGetStatusName(status)) + " from " + what);
}

}  // namespace lazuli::lowering::cublaslt
