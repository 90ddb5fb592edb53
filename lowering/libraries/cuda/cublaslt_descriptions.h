// A product told to cuBLASLt: descriptions that are made once and owned.
#pragma once
#include "lowering/libraries/cuda/cublaslt_api.h"
#include "lowering/libraries/cuda/cublaslt_key.h"

namespace lazuli::lowering::cublaslt {

using ir::DType;

inline cudaDataType_t data_type(DType type) {
  switch (type) {
    case DType::BF16:
      return CUDA_R_16BF;
    case DType::F16:
      return CUDA_R_16F;
    case DType::F64:
      return CUDA_R_64F;
    default:
      return CUDA_R_32F;
  }
}

inline cublasComputeType_t compute_type(const CublasLtProblem& p) {
  if (p.type == DType::F64) return CUBLAS_COMPUTE_64F;
  return p.type == DType::F32 && p.settings.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

inline cublasLtEpilogue_t epilogue_of(const BlasEpilogue& e) {
  switch (e.activation) {
    case BlasEpilogue::Relu:
      return e.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case BlasEpilogue::GeluTanh:
      return e.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    default:
      return e.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }
}

class MatrixDescription {
 public:
  MatrixDescription(DType type, const BlasMatrix& m, int64_t batches) {
    check(api().cublasLtMatrixLayoutCreate(&layout_, data_type(type), m.rows, m.columns, m.leading), "a matrix layout");
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(batches));
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, m.batch_step);
  }
  ~MatrixDescription() { api().cublasLtMatrixLayoutDestroy(layout_); }
  MatrixDescription(const MatrixDescription&) = delete;
  MatrixDescription& operator=(const MatrixDescription&) = delete;
  operator cublasLtMatrixLayout_t() const { return layout_; }

 private:
  template <class T>
  void set(cublasLtMatrixLayoutAttribute_t attribute, T value) {
    check(api().cublasLtMatrixLayoutSetAttribute(layout_, attribute, &value, sizeof value), "a matrix attribute");
  }
  cublasLtMatrixLayout_t layout_ = nullptr;
};

class ProductDescription {
 public:
  explicit ProductDescription(const CublasLtProblem& p) {
    check(api().cublasLtMatmulDescCreate(&desc_, compute_type(p), p.type == DType::F64 ? CUDA_R_64F : CUDA_R_32F),
          "a matmul description");
    set(CUBLASLT_MATMUL_DESC_TRANSA, p.product.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, p.product.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(p.epilogue));
    if (p.epilogue.bias) set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(p.out_type));
  }
  ~ProductDescription() { api().cublasLtMatmulDescDestroy(desc_); }
  ProductDescription(const ProductDescription&) = delete;
  ProductDescription& operator=(const ProductDescription&) = delete;
  operator cublasLtMatmulDesc_t() const { return desc_; }
  void set_bias(const void* bias) {
    if (bias == bias_) return;
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    bias_ = bias;
  }

 private:
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    check(api().cublasLtMatmulDescSetAttribute(desc_, attribute, &value, sizeof value), "a matmul attribute");
  }
  cublasLtMatmulDesc_t desc_ = nullptr;
  const void* bias_ = nullptr;
};

struct Descriptions {
  ProductDescription product;
  MatrixDescription a, b, c, d;
  explicit Descriptions(const CublasLtProblem& p)
      : product(p),
        a(p.type, p.product.a, p.product.batches),
        b(p.type, p.product.b, p.product.batches),
        c(p.out_type, p.product.c, p.product.batches),
        d(p.out_type, p.product.d, p.product.batches) {}
};

class Preference {
 public:
  Preference(const CublasLtProblem& p, const Alignments& at) {
    check(api().cublasLtMatmulPreferenceCreate(&preference_), "a preference");
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(p.settings.workspace_bytes));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, at.a);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, at.b);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, at.c);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, at.d);
    if (!reduces_in_result_type(p))
      set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  }
  ~Preference() { api().cublasLtMatmulPreferenceDestroy(preference_); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  operator cublasLtMatmulPreference_t() const { return preference_; }

 private:
  template <class T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    check(api().cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof value), "a preference");
  }
  cublasLtMatmulPreference_t preference_ = nullptr;
};

}  // namespace lazuli::lowering::cublaslt
