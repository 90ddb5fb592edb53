// Matrix products by cuBLASLt against float64, on a GPU.
#include <thread>
#include "tests/gpu/matmul/matmul_on_device.h"

namespace lazuli::lowering {
namespace {

using ir::DType;
using testing::Device;
using testing::DeviceMatmul;
using testing::layout;
using testing::MatmulCase;
using testing::plain_case;
using testing::Report;

const std::vector<DType> kTypes{DType::BF16, DType::F16, DType::F32, DType::F64};

class CublasLt : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Device::get()) GTEST_SKIP() << "no GPU";
  }
};

TEST_F(CublasLt, EverySize) {
  Report report;
  for (DType t : kTypes) report.add(testing::size_cases(t));
}

TEST_F(CublasLt, EveryOrder) {
  Report report;
  for (DType t : kTypes) report.add(testing::order_cases(t));
}

TEST_F(CublasLt, Batches) {
  Report report;
  for (DType t : kTypes) report.add(testing::batch_cases(t));
}

TEST_F(CublasLt, Epilogues) {
  Report report;
  for (DType t : {DType::BF16, DType::F16, DType::F32}) report.add(testing::epilogue_cases(t));
  report.add(plain_case("add", DType::F64, 33, 35, 19, {{PostOp::Add, layout(DType::F64, {33, 35})}}));
}

TEST_F(CublasLt, EmptyInnerDimensionGivesPostOpsOfZero) {
  Report report;
  for (DType t : kTypes) report.add(plain_case("empty sum", t, 5, 7, 0));
  for (DType t : {DType::BF16, DType::F16, DType::F32}) {
    report.add(plain_case("empty sum, bias", t, 5, 7, 0, {{PostOp::Add, layout(t, {7})}, {PostOp::Relu}}));
    report.add({"empty sums, add",
                layout(t, {3, 5, 0}),
                layout(t, {3, 0, 7}),
                layout(t, {3, 5, 7}),
                {{PostOp::Add, layout(t, {3, 5, 7})}}});
  }
}

TEST_F(CublasLt, LinearLayer) {
  Report report;
  for (DType t : {DType::BF16, DType::F16, DType::F32})
    for (bool gelu : {false, true}) {
      MatmulCase c{"linear",
                   layout(t, {2, 128, 768}),
                   layout(t, {2, 768, 3072}, {2, 1}),
                   layout(t, {2, 128, 3072}),
                   {{PostOp::Add, layout(t, {3072})}}};
      if (gelu && t != DType::F32) c.ops.push_back({PostOp::GeluTanh});
      report.add(c);
    }
}

TEST_F(CublasLt, LongSums) {
  Report report;
  for (DType t : kTypes)
    for (bool reduced : {false, true}) {
      MatmulSettings settings;
      settings.bf16_reduced_precision_reduction = settings.f16_reduced_precision_reduction = reduced;
      report.add(plain_case(reduced ? "reduced sums" : "full sums", t, 96, 64, 16384), settings);
      report.add(plain_case(reduced ? "reduced sums" : "full sums", t, 1, 257, 8192), settings);
    }
}

TEST_F(CublasLt, WithoutWorkspace) {
  Report report;
  MatmulSettings none;
  none.workspace_bytes = 0;
  for (DType t : kTypes) report.add(plain_case("no workspace", t, 96, 64, 4096), none);
}

TEST_F(CublasLt, AnyAlignment) {
  Report report;
  for (DType t : {DType::BF16, DType::F16, DType::F32})
    for (int64_t shift : {1, 2, 4, 8})
      for (const auto& ops : {std::vector<PostOp>{},
                              {{PostOp::Add, layout(t, {96})}, {PostOp::Relu}},
                              {{PostOp::Add, layout(t, {64, 96})}}}) {
        const MatmulCase c = plain_case("shift by " + std::to_string(shift), t, 64, 96, 128, ops);
        report.add(c, {}, {.a = shift});
        report.add(c, {}, {.b = shift});
        report.add(c, {}, {.out = shift});
        report.add(c, {}, {.other = shift});
        report.add(c, {}, {shift, shift, shift, shift});
      }
}

TEST_F(CublasLt, RandomProducts) {
  Report report;
  std::mt19937 random(7);
  const auto pick = [&](auto... of) { return std::array{of...}[random() % sizeof...(of)]; };
  for (int i = 0; i < 400; ++i) {
    const DType t = kTypes[random() % kTypes.size()];
    const int64_t m = pick(1, 2, 7, 16, 40, 128), n = pick(1, 3, 8, 24, 64, 130), k = pick(1, 5, 8, 32, 100);
    const int64_t outer = pick(1, 2, 3), inner = pick(1, 4, 5);
    const auto order = [&]() -> std::vector<size_t> {
      return pick(0, 1)   ? std::vector<size_t>{0, 1, 2, 3}
             : pick(0, 1) ? std::vector<size_t>{0, 2, 1, 3}
                          : std::vector<size_t>{1, 0, 3, 2};
    };
    const std::vector<size_t> shared = pick(0, 1, 2) ? std::vector<size_t>{} : std::vector<size_t>{0, 1};
    MatmulCase c{"random " + std::to_string(i), layout(t, {outer, inner, m, k}, order(), pick(0, 0, 3)),
                 layout(t, {outer, inner, k, n}, order(), pick(0, 0, 8), shared), layout(t, {outer, inner, m, n})};
    if (pick(0, 1)) c.ops.push_back({PostOp::Scale, {}, -0.5f});
    if (pick(0, 1))
      c.ops.push_back({PostOp::Add, pick(0, 1) ? layout(t, {n}) : layout(t, {outer, inner, m, n}, {}, pick(0, 4))});
    if (pick(0, 1)) c.ops.push_back({pick(PostOp::Relu, PostOp::GeluTanh)});
    if (!cublaslt_takes(t, c.ops, c.out)) c.ops.clear();
    if (cublaslt_reads(c.a) && cublaslt_reads(c.b)) report.add(c);
  }
}

TEST_F(CublasLt, ReducedOperandsWithFloatResult) {
  Report report;
  for (DType t : {DType::BF16, DType::F16}) {
    MatmulCase c = plain_case("float result", t, 33, 48, 64);
    c.out.dtype = DType::F32;
    report.add(c);
    c.ops = {{PostOp::Add, layout(DType::F32, {48})}, {PostOp::Relu}};
    report.add(c);
  }
}

TEST_F(CublasLt, Tf32OnlyWhereItIsAllowed) {
  const MatmulCase c = plain_case("tf32", DType::F32, 256, 256, 1024);
  MatmulSettings allowed;
  allowed.tf32 = true;
  DeviceMatmul exact(c), fast(c, allowed);
  exact.enqueue();
  fast.enqueue();
  EXPECT_EQ(exact.wrong(), "");
  EXPECT_EQ(fast.wrong(500), "");
  EXPECT_GT(fast.worst(), 10 * exact.worst()) << "tf32 was not used";
}

TEST_F(CublasLt, AddendInTheResultsPlace) {
  for (DType t : kTypes) {
    const MatmulCase c = plain_case("in place", t, 64, 96, 128, {{PostOp::Add, layout(t, {64, 96})}});
    DeviceMatmul m(c);
    std::memcpy(m.host().out.data(), m.host().others[0].data(), extent_bytes(c.out));
    m.out().upload();
    m.enqueue(m.out().data(), m.out().data());
    EXPECT_EQ(m.wrong(), "");
  }
}

// A NaN stays one, and an infinity too; a fused relu must not turn NaN into 0.
TEST_F(CublasLt, InfinityAndNanPropagate) {
  for (DType t : kTypes)
    for (const std::vector<PostOp>& ops : {std::vector<PostOp>{}, {{PostOp::Relu}}, {{PostOp::GeluTanh}}}) {
      const MatmulCase c = plain_case("nan", t, 16, 32, 8, ops);
      if (!cublaslt_takes(t, ops, c.out)) continue;
      DeviceMatmul m(c);
      testing::Tensor a(c.a);
      a.each([&](const ir::Dims& at) { a.set(at, 0); });
      a.set({1, 2}, NAN);
      a.set({3, 4}, INFINITY);
      testing::Tensor b(c.b);
      b.each([&](const ir::Dims& at) { b.set(at, 1); });
      testing::DeviceTensor on_a(a), on_b(b);
      const void* operands[] = {on_a.data(), on_b.data()};
      void* result = m.out().data();
      testing::Memory scratch(m.call().scratch_bytes());
      m.call().run(operands, &result, scratch.data());
      Device::get()->synchronize();
      m.out().download();
      const testing::Tensor& out = m.host().out;
      EXPECT_TRUE(std::isnan(out.get({1, 0}))) << m.call().describe() << " made " << out.get({1, 0}) << " of NaN";
      EXPECT_EQ(out.get({3, 0}), INFINITY) << m.call().describe();
      EXPECT_EQ(out.get({0, 0}), 0) << m.call().describe();
    }
}

TEST_F(CublasLt, RunsOnTheStreamThatItIsGiven) {
  Report report;
  for (void* stream : {static_cast<void*>(nullptr), Device::get()->make_stream(), Device::get()->make_stream()})
    report.add("stream", [&] {
      DeviceMatmul m(plain_case("stream", DType::BF16, 64, 64, 64));
      m.call().on_stream(stream);
      m.enqueue();
      return m.wrong();
    });
}

TEST_F(CublasLt, OneCallTakesBuffersOfOtherAlignments) {
  const MatmulCase c = plain_case("again", DType::BF16, 64, 96, 128);
  DeviceMatmul aligned(c), shifted(c, {}, {.a = 1, .b = 3, .out = 1});
  for (DeviceMatmul* m : {&aligned, &shifted, &aligned}) {
    m->enqueue();
    EXPECT_EQ(m->wrong(), "");
  }
}

TEST_F(CublasLt, CallsOnManyThreads) {
  std::vector<std::string> wrong(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < wrong.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        Device::get()->make_current();
        DeviceMatmul m(plain_case("thread " + std::to_string(i), DType::F32, 32 + 8 * (i % 3), 64, 64));
        m.call().on_stream(Device::get()->make_stream());
        for (int run = 0; run < 20; ++run) m.enqueue();
        wrong[i] = m.wrong();
      } catch (const std::exception& e) {
        wrong[i] = e.what();
      }
    });
  for (std::thread& t : threads) t.join();
  for (const std::string& w : wrong) EXPECT_EQ(w, "");
}

TEST_F(CublasLt, AThreadWithoutAContextIsToldSo) {
  std::string message;
  DeviceMatmul m(plain_case("context", DType::F32, 8, 8, 8));
  std::thread([&] {
    try {
      m.enqueue();
    } catch (const std::exception& e) {
      message = e.what();
    }
  }).join();
  EXPECT_NE(message.find("no CUDA context"), std::string::npos) << message;
}

std::string captured(DeviceMatmul& m) {
  m.out().upload();  // what no product would give
  Device::get()->begin_capture(Device::get()->stream());
  std::string error;
  try {
    m.enqueue();
  } catch (const std::exception& e) {
    error = e.what();
  }
  try {
    Device::get()->end_capture_and_launch(Device::get()->stream());
  } catch (const std::exception& e) {
    error += std::string(error.empty() ? "" : "; ") + e.what();
  }
  return error.empty() ? m.wrong() : error;
}

TEST_F(CublasLt, IsCapturedIntoAGraphAfterItsFirstRun) {
  for (DType t : kTypes) {
    DeviceMatmul m(plain_case("captured", t, 64, 96, 4096));
    m.enqueue();
    Device::get()->synchronize();
    EXPECT_EQ(captured(m), "");
  }
}

// Not promised: the first run loads kernels. A skip tells that the executor has to run a plan once before.
TEST_F(CublasLt, IsCapturedIntoAGraphAtItsFirstRun) {
  DeviceMatmul m(plain_case("captured first", DType::BF16, 200, 136, 1000));
  const std::string wrong = captured(m);
  if (!wrong.empty()) GTEST_SKIP() << wrong;
}

}  // namespace
}  // namespace lazuli::lowering
