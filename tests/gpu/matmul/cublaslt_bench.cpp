// How fast cuBLASLt's calls are, on the device and on the host. Operands are random: products of zeros run faster.
#include <chrono>
#include <cstdio>
#include "lowering/libraries/cuda/cuda_stream.h"
#include "tests/gpu/matmul/matmul_on_device.h"

namespace lazuli::lowering {
namespace {

using ir::DType;
using testing::Device;
using testing::layout;
using testing::Memory;

// Device memory filled with a random pattern that is repeated in a prime number of elements.
std::unique_ptr<Memory> filled(const Layout& l) {
  testing::Tensor pattern = testing::Tensor::random(layout(l.dtype, {65521}), 1);
  const size_t bytes = extent_bytes(l), part = extent_bytes(pattern.layout);
  std::vector<char> host(bytes);
  for (size_t at = 0; at < bytes; at += part) std::memcpy(&host[at], pattern.data(), std::min(part, bytes - at));
  auto memory = std::make_unique<Memory>(bytes);
  Device::get()->upload(memory->data(), host.data(), bytes);
  return memory;
}

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> v) {
  std::ranges::sort(v);
  return v[v.size() / 2];
}

void bench(const char* name, const Layout& a, const Layout& b, const Layout& out, const std::vector<PostOp>& ops = {},
           const MatmulSettings& settings = {}) {
  const auto call = make_cublaslt_matmul(a, b, out, ops, settings);
  const auto on_a = filled(a), on_b = filled(b), on_out = filled(out);
  std::unique_ptr<Memory> other;
  for (const PostOp& op : ops)
    if (has_operand(op)) other = filled(op.operand);
  const void* operands[] = {on_a->data(), on_b->data(), other ? other->data() : nullptr};
  void* result = on_out->data();
  Memory scratch(call->scratch_bytes());
  void* stream = Device::get()->stream();
  call->on_stream(stream);
  const auto run = [&] { call->run(operands, &result, scratch.data()); };

  const double begin = now_us();
  run();
  const double first = now_us() - begin;
  Device::get()->synchronize();
  StreamTimer timer(stream);
  timer.start();
  for (int i = 0; i < 3; ++i) run();
  const int repeats = std::clamp(static_cast<int>(20e3 / (timer.stop() / 3 * 1e3)), 5, 200);  // 20 ms
  std::vector<double> device, host;
  for (int round = 0; round < 7; ++round) {
    timer.start();
    const double start = now_us();
    for (int i = 0; i < repeats; ++i) run();
    host.push_back((now_us() - start) / repeats);
    device.push_back(timer.stop() * 1e3 / repeats);
  }
  const double us = median(device),
               flops = 2.0 * static_cast<double>(ir::product(out.shape)) * static_cast<double>(a.shape.back());
  std::printf("%-26s %10.1f us %8.1f TFLOP/s  host %5.1f us  first %8.1f us  %s\n", name, us, flops / us * 1e-6,
              median(host), first, call->describe().c_str());
  std::fflush(stdout);
}

// x times a weight that is stored [out features, in features].
void bench_linear(const char* name, int64_t rows, int64_t in, int64_t out, const std::vector<PostOp>& ops = {}) {
  const DType t = DType::BF16;
  bench(name, layout(t, {rows, in}), layout(t, {in, out}, {1, 0}), layout(t, {rows, out}), ops);
}

void bench_square(const char* name, DType t, int64_t n, const MatmulSettings& settings = {}) {
  bench(name, layout(t, {n, n}), layout(t, {n, n}), layout(t, {n, n}), {}, settings);
}

}  // namespace

int bench_cublaslt() {
  if (!Device::get()) return 1;
  const char* tune = std::getenv("LAZULI_CUBLASLT_TUNE");
  std::printf("LAZULI_CUBLASLT_TUNE=%s\n", tune ? tune : "1");
  const DType t = DType::BF16;
  const PostOp bias{PostOp::Add, layout(t, {3072})};
  MatmulSettings tf32;
  tf32.tf32 = true;
  bench_square("8192^3 bf16", t, 8192);
  bench_linear("linear", 8192, 768, 3072);
  bench_linear("linear, bias", 8192, 768, 3072, {bias});
  bench_linear("linear, bias, gelu", 8192, 768, 3072, {bias, {PostOp::GeluTanh}});
  bench_linear("linear back, add", 8192, 3072, 768, {{PostOp::Add, layout(t, {8192, 768})}});
  const Layout q = layout(t, {16, 12, 128, 64}), kt = layout(t, {16, 12, 64, 128}, {0, 1, 3, 2}),
               s = layout(t, {16, 12, 128, 128});
  bench("scores", q, kt, s, {{PostOp::Scale, {}, 0.125f}});
  bench("scores in place", layout(t, {16, 12, 128, 64}, {0, 2, 1, 3}), layout(t, {16, 12, 64, 128}, {0, 3, 1, 2}), s);
  bench("attended", s, q, layout(t, {16, 12, 128, 64}));
  bench_square("4096^3 f32", DType::F32, 4096);
  bench_square("4096^3 tf32", DType::F32, 4096, tf32);
  bench_square("4096^3 f16", DType::F16, 4096);
  bench_square("4096^3 f64", DType::F64, 4096);
  bench_linear("one row", 1, 4096, 4096);
  bench_linear("eight rows", 8, 4096, 4096);
  bench("one column", layout(t, {4096, 4096}), layout(t, {4096, 1}), layout(t, {4096, 1}));
  bench("one column of columns", layout(t, {4096, 4096}, {1, 0}), layout(t, {4096, 1}), layout(t, {4096, 1}));
  return 0;
}

}  // namespace lazuli::lowering
