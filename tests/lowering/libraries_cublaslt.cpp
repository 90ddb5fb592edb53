// cuBLASLt's calls as far as they go without a GPU: what is taken, what is refused, which products share an algorithm.
#include "lowering/libraries/cuda/cublaslt.h"
#include "lowering/libraries/cuda/cublaslt_key.h"
#include "lowering/libraries/shared_library.h"
#include "tests/lowering/matmul_cases.h"

namespace lazuli::lowering {
namespace {

using ir::DType;
using testing::layout;

const MatmulSettings kSettings;

bool takes(DType t, std::vector<PostOp> ops, Layout out) { return cublaslt_takes(t, ops, out); }

TEST(LibrariesCublasLt, TakesWhatAnEpilogueDoes) {
  for (DType t : {DType::BF16, DType::F16, DType::F32}) {
    const Layout out = layout(t, {4, 8, 6});
    const PostOp bias{PostOp::Add, layout(t, {6})}, whole{PostOp::Add, layout(t, {4, 8, 6})},
        scale{PostOp::Scale, {}, 2};
    for (const std::vector<PostOp>& ops : {std::vector<PostOp>{},
                                           {scale},
                                           {bias},
                                           {whole},
                                           {{PostOp::Relu}},
                                           {scale, scale, bias, {PostOp::Relu}},
                                           {scale, whole, {PostOp::Relu}}})
      EXPECT_TRUE(takes(t, ops, out)) << ops.size() << " post-ops on " << ir::name(t);
    EXPECT_EQ(takes(t, {bias, {PostOp::GeluTanh}}, out), t != DType::F32);
  }
}

TEST(LibrariesCublasLt, LeavesTheRestToKernels) {
  const DType t = DType::BF16;
  const Layout out = layout(t, {4, 8, 6});
  const PostOp bias{PostOp::Add, layout(t, {6})}, whole{PostOp::Add, layout(t, {4, 8, 6})}, relu{PostOp::Relu};
  const std::vector<std::pair<std::string, std::vector<PostOp>>> refused{
      {"two adds", {bias, whole}},
      {"an add after an activation", {relu, bias}},
      {"two activations", {relu, {PostOp::GeluTanh}}},
      {"a scale after a bias", {bias, {PostOp::Scale, {}, 2}}},
      {"a product", {{PostOp::Mul, layout(t, {6})}}},
      {"erf", {{PostOp::GeluErf}}},
      {"sigmoid", {{PostOp::Sigmoid}}},
      {"a bias of another type", {{PostOp::Add, layout(DType::F32, {6})}}},
      {"a bias of steps", {{PostOp::Add, {t, {6}, {2}}}}},
      {"a scalar", {{PostOp::Add, layout(t, {})}}},
      {"a bias down the rows", {{PostOp::Add, layout(t, {8, 1})}}},
      {"a bias for each batch", {{PostOp::Add, layout(t, {4, 1, 6})}}},
      {"a matrix for all batches", {{PostOp::Add, layout(t, {8, 6})}}},
      {"a transposed addend", {{PostOp::Add, layout(t, {4, 8, 6}, {0, 2, 1})}}},
  };
  for (const auto& [what, ops] : refused) EXPECT_FALSE(takes(t, ops, out)) << what;
  EXPECT_FALSE(takes(t, {bias}, layout(t, {4, 8, 6}, {0, 2, 1}))) << "a bias across the columns of the result";
  EXPECT_FALSE(takes(t, {}, {t, {8, 6}, {12, 2}})) << "a result that is contiguous along nothing";
  for (PostOp::Kind kind : {PostOp::Relu, PostOp::Scale})
    EXPECT_FALSE(takes(DType::F64, {{kind}}, layout(DType::F64, {8, 6})));
  EXPECT_TRUE(takes(DType::F64, {{PostOp::Add, layout(DType::F64, {8, 6})}}, layout(DType::F64, {8, 6})));
  EXPECT_FALSE(takes(DType::F64, {{PostOp::Add, layout(DType::F64, {6})}}, layout(DType::F64, {8, 6})));
}

std::unique_ptr<LibraryCall> make(DType t, const Layout& a, const Layout& b, std::vector<PostOp> ops = {}) {
  Layout out = layout(t, a.shape);
  out.shape.back() = b.shape.back();
  return make_cublaslt_matmul(a, b, layout(t, out.shape), ops, kSettings);
}

TEST(LibrariesCublasLt, MakesCallsOfFloatingTypesOnly) {
  for (DType t : {DType::BF16, DType::F16, DType::F32, DType::F64})
    EXPECT_TRUE(make(t, layout(t, {2, 3}), layout(t, {3, 4}))) << ir::name(t);
  for (DType t : {DType::Bool, DType::U8, DType::I8, DType::I32, DType::I64})
    EXPECT_FALSE(make(t, layout(t, {2, 3}), layout(t, {3, 4}))) << ir::name(t);
  EXPECT_TRUE(make(DType::F32, layout(DType::BF16, {2, 3}), layout(DType::BF16, {3, 4})));
  EXPECT_FALSE(make(DType::F64, layout(DType::F32, {2, 3}), layout(DType::F32, {3, 4})));
  EXPECT_FALSE(make(DType::BF16, layout(DType::F32, {2, 3}), layout(DType::F32, {3, 4})));
}

TEST(LibrariesCublasLt, EmptyProducts) {
  const DType t = DType::F32;
  for (auto [m, n] : {std::pair{0, 4}, {2, 0}}) {
    const auto call = make(t, layout(t, {m, 3}), layout(t, {3, n}));
    ASSERT_TRUE(call);
    EXPECT_EQ(call->scratch_bytes(), 0u);
    call->run(nullptr, nullptr, nullptr);
  }
  EXPECT_TRUE(make(t, layout(t, {0, 2, 3}), layout(t, {0, 3, 4})));
  const auto call = make(t, layout(t, {3, 2, 0}), layout(t, {3, 0, 4}), {{PostOp::Add, layout(t, {4})}});
  ASSERT_TRUE(call);
  EXPECT_EQ(call->describe(), "cuBLASLt f32 3 x 2x4x1 tn bias of zeros");
}

TEST(LibrariesCublasLt, RefusesOperandsThatDoNotFitOrMustBeCopied) {
  const DType t = DType::F32;
  EXPECT_THROW(make(t, layout(t, {2, 3}), layout(t, {4, 5})), TypeError);
  EXPECT_THROW(make(t, layout(t, {2, 3}), layout(DType::F64, {3, 5})), TypeError);
  EXPECT_FALSE(make(t, {t, {2, 3}, {6, 2}}, layout(t, {3, 5})));
}

TEST(LibrariesCublasLt, SaysWhatItDoes) {
  const DType t = DType::BF16;
  const auto call = make(t, layout(t, {8, 128, 768}), layout(t, {8, 768, 3072}, {2, 1}, 0, {0}),
                         {{PostOp::Scale, {}, 2}, {PostOp::Add, layout(t, {3072})}, {PostOp::GeluTanh}});
  EXPECT_EQ(call->describe(), "cuBLASLt bf16 1024x3072x768 nt scale bias gelu_tanh");
  EXPECT_GE(call->scratch_bytes(), kSettings.workspace_bytes);
}

CublasLtProblem problem(DType t, int64_t m, int64_t n, int64_t k) {
  auto p = blas_product(layout(t, {m, k}), layout(t, {k, n}), layout(t, {m, n}), nullptr, false);
  return {t, t, *p, {}, kSettings};
}

TEST(LibrariesCublasLt, ProductsThatDifferOnlyInAddressesShareAnAlgorithm) {
  const CublasLtProblem p = problem(DType::BF16, 64, 32, 16);
  const CublasLtKey key = cublaslt_key(p, {}, nullptr);
  CublasLtProblem scaled = p;
  scaled.epilogue.alpha = 3;
  EXPECT_EQ(cublaslt_key(scaled, {}, nullptr), key);
  EXPECT_EQ(CublasLtKeyHash{}(cublaslt_key(scaled, {}, nullptr)), CublasLtKeyHash{}(key));

  std::vector<CublasLtKey> others{cublaslt_key(problem(DType::F16, 64, 32, 16), {}, nullptr),
                                  cublaslt_key(problem(DType::BF16, 32, 64, 16), {}, nullptr),
                                  cublaslt_key(problem(DType::BF16, 64, 32, 24), {}, nullptr),
                                  cublaslt_key(p, {.a = 16}, nullptr),
                                  cublaslt_key(p, {.b = 16}, nullptr),
                                  cublaslt_key(p, {.bias = 2}, nullptr),
                                  cublaslt_key(p, {}, &key)};
  const auto changed = [&](auto change) {
    CublasLtProblem q = p;
    change(q);
    others.push_back(cublaslt_key(q, {}, nullptr));
  };
  changed([](auto& q) { q.epilogue.bias = true; });
  changed([](auto& q) { q.epilogue.activation = BlasEpilogue::Relu; });
  changed([](auto& q) { q.epilogue.addend = layout(DType::BF16, {64, 32}); });
  changed([](auto& q) { q.product.a.transposed = true; });
  changed([](auto& q) { q.product.b.leading *= 2; });
  changed([](auto& q) { q.product.batches = 2; });
  changed([](auto& q) { q.product.d.batch_step = 4096; });
  changed([](auto& q) { q.out_type = DType::F32; });
  changed([](auto& q) { q.settings.workspace_bytes = 0; });
  changed([](auto& q) { q.settings.bf16_reduced_precision_reduction = false; });
  for (size_t i = 0; i < others.size(); ++i) {
    EXPECT_FALSE(others[i] == key) << i;
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(others[i] == others[j]) << i << " and " << j;
  }
  CublasLtProblem tf32 = p;
  tf32.settings.tf32 = true;  // means nothing for bfloat16
  EXPECT_EQ(cublaslt_key(tf32, {}, nullptr), key);
}

TEST(LibrariesCublasLt, AlignmentsHoldForEveryIndexOfTheLoops) {
  const auto at = [](uintptr_t address) { return reinterpret_cast<const void*>(address); };
  EXPECT_EQ(alignment(at(4096), 0), 256u);
  EXPECT_EQ(alignment(at(4096 + 64), 0), 64u);
  EXPECT_EQ(alignment(at(4096 + 6), 0), 2u);
  EXPECT_EQ(alignment(at(4096), 48), 16u);
  EXPECT_EQ(alignment(at(4096 + 8), 48 | 2048), 8u);
}

TEST(LibrariesCublasLt, AMissingLibraryIsNamed) {
  try {
    SharedLibrary missing("libnobody.so.7");
    FAIL() << "found";
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("libnobody.so.7"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("LAZULI_CUDA_LIBRARIES"), std::string::npos) << e.what();
  }
  EXPECT_THROW(SharedLibrary("libc.so.6").symbol("no_such_function"), std::runtime_error);
}

}  // namespace
}  // namespace lazuli::lowering
