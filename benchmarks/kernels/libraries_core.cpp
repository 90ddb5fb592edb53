// Library calls on their own: matrix products, convolutions with their gradients, pooling, index-add. Of each call the
// variants that matmul.cpp and convolution.cpp choose among: `chosen` is what they take where a call may cost much to
// make, `quick` where it must cost little, and the others are what there is. A line of JSON for each has the time of
// one run (a low quantile, since machines are shared), and the times to make the call the first and the second time,
// in microseconds. Threads as OMP_NUM_THREADS says. `tools/bench libraries` makes a table of it.
// Usage: libraries_core [part of a name]
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/kernels/peak.h"
#include "lowering/libraries/convolution/depthwise.h"
#include "lowering/libraries/convolution/implicit_gemm.h"
#include "lowering/libraries/indexing.h"
#include "lowering/libraries/onednn.h"
#include "lowering/libraries/pooling/pooling.h"
#include "lowering/libraries/post_ops.h"
#include "lowering/libraries/primitive.h"
#include "lowering/libraries/product/gemm.h"
#include "lowering/libraries/strided_copy.h"

using namespace lazuli;
using namespace lazuli::lowering;
using ir::Dims;
using ir::DType;
using onednn::Inner;
using onednn::Pass;

namespace {

double now_us() {
  using namespace std::chrono;
  return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}

// The 10 % quantile of repeated runs, in microseconds.
double time_us(const std::function<void()>& run) {
  for (int i = 0; i < 3; ++i) run();
  std::vector<double> times;
  for (double total = 0; times.size() < 10 || (total < 50e3 && times.size() < 5000);) {
    const double start = now_us();
    run();
    times.push_back(now_us() - start);
    total += times.back();
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 10];
}

// Of float32, now: processors do not run at one speed.
double peak_gflops() {
  double flops = 0;
  const double us = time_us([&] { flops = multiply_adds(20000, crew_size()); });
  return flops / us * 1e-3;
}

struct Memory {
  explicit Memory(const Layout& l, int64_t end = 0) : data(std::aligned_alloc(64, round_up_64(extent_bytes(l) + 64))) {
    std::memset(data, 0, extent_bytes(l));
    const size_t n = extent_bytes(l) / ir::item_size(l.dtype);
    for (size_t i = 0; i < n; ++i) {
      const float value = 0.01f * static_cast<float>(i % 13);
      if (l.dtype == DType::F32) static_cast<float*>(data)[i] = value;
      if (l.dtype == DType::F64) static_cast<double*>(data)[i] = value;
      if (l.dtype == DType::BF16) static_cast<uint16_t*>(data)[i] = static_cast<uint16_t>(0x3c00 + i % 64);
      if (l.dtype == DType::I64) static_cast<int64_t*>(data)[i] = end ? static_cast<int64_t>(i * 7919) % end : 0;
    }
  }
  ~Memory() { std::free(data); }
  Memory(const Memory&) = delete;
  void* data;
};

const char* filter = "";

using Make = std::function<std::shared_ptr<LibraryCall>()>;

// Made-up operands and results of a call, which its variants share.
struct Case {
  std::string name;
  double flops;
  std::vector<Layout> operands, results;
  int64_t index_end = 0;
  bool in_place = false;
};

// Makes the call twice, runs it, prints a line. A variant that does not serve the case makes null.
void bench(const Case& c, const char* variant, const Make& make) {
  if (c.name.find(filter) == std::string::npos) return;
  double start = now_us();
  auto call = make();
  const double first = now_us() - start;
  if (!call) return;
  start = now_us();
  call = make();
  const double second = now_us() - start;
  std::vector<std::unique_ptr<Memory>> memory;
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const Layout& l : c.operands) in.push_back(memory.emplace_back(std::make_unique<Memory>(l, c.index_end))->data);
  for (const Layout& l : c.results) out.push_back(memory.emplace_back(std::make_unique<Memory>(l))->data);
  if (c.in_place) out[0] = const_cast<void*>(in[0]);
  Memory scratch(dense_layout(DType::U8, {static_cast<int64_t>(call->scratch_bytes())}));
  const double peak = peak_gflops();
  const double us = time_us([&] { call->run(in.data(), out.data(), scratch.data); });
  std::printf(R"({"call": "%s", "variant": "%s", "us": %.1f, "GF/s": %.0f, "peak GF/s": %.0f, )"
              R"("made us": [%.0f, %.0f], "by": "%s"})"
              "\n",
              c.name.c_str(), variant, us, c.flops / us * 1e-3, peak, first, second, call->describe().c_str());
  std::fflush(stdout);
}

Layout transposed(DType t, const Dims& shape) {
  Dims flipped = shape;
  std::swap(flipped[shape.size() - 1], flipped[shape.size() - 2]);
  Layout l = dense_layout(t, flipped);
  l.shape = shape;
  std::swap(l.strides[shape.size() - 1], l.strides[shape.size() - 2]);
  return l;
}

void bench_matmul(DType t, int64_t batch, int64_t m, int64_t n, int64_t k) {
  const auto shape = [&](int64_t rows, int64_t columns) {
    return batch ? Dims{batch, rows, columns} : Dims{rows, columns};
  };
  const auto operand = [&](bool turned, int64_t rows, int64_t columns) {
    return turned ? transposed(t, shape(rows, columns)) : dense_layout(t, shape(rows, columns));
  };
  for (auto [ta, tb] : {std::pair{false, false}, {false, true}, {true, false}}) {
    const Layout a = operand(ta, m, k), b = operand(tb, k, n), out = operand(false, m, n);
    const std::string name = std::string(ir::name(t)) + (batch ? " " + std::to_string(batch) + "x" : " ") +
                             std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + (ta ? " aT" : "") +
                             (tb ? " bT" : "");
    const double flops = 2.0 * std::max<int64_t>(batch, 1) * m * n * k;
    const Case c{"mm " + name, flops, {a, b}, {out}};
    bench(c, "chosen", [&] { return make_matmul(a, b, out); });
    if (t == DType::F32) {
      bench(c, "quick", [&] { return make_matmul(a, b, out, {}, Effort::Little); });
      bench(c, "own", [&] { return make_gemm(a, b, out, {}); });
    }
    if (t == DType::F64) continue;
    bench(c, "oneDNN as given", [&] { return onednn::matmul(a, b, out, {}, Inner::Given); });
    bench(c, "oneDNN reordered", [&] { return onednn::matmul(a, b, out, {}, Inner::Best); });
  }
}

// A linear layer of m rows in inference: weights of [n, k], packed once where that is worth it, and what the call does
// to its result.
struct Linear {
  const char* name;
  int64_t m, n, k;
  std::vector<PostOp::Kind> ops;
};

void bench_linear(const Linear& v) {
  const DType t = DType::F32;
  const Layout a = dense_layout(t, {v.m, v.k}), b = transposed(t, {v.k, v.n}), out = dense_layout(t, {v.m, v.n});
  std::vector<PostOp> ops;
  Case c{std::string("linear ") + v.name, 2.0 * v.m * v.n * v.k, {a, b}, {out}};
  for (size_t i = 0; i < v.ops.size(); ++i) {  // a bias comes first, and then what else is added
    ops.push_back({v.ops[i]});
    if (!has_operand(ops.back())) continue;
    ops.back().operand = i == 0 ? dense_layout(t, {v.n}) : out;
    c.operands.push_back(ops.back().operand);
  }
  const PackedCall packed = make_packed_matmul(a, b, out, ops);
  bench(c, packed.pack ? "as given" : "chosen", [&] { return make_matmul(a, b, out, ops); });
  if (!packed.pack) return;
  c.operands[kPackedOperand] = dense_layout(t, {static_cast<int64_t>(packed.bytes / sizeof(float))});
  bench(c, "chosen", [&] { return make_packed_matmul(a, b, out, ops).call; });
}

struct Conv {
  int64_t n, c, size, oc, kernel, stride, padding, groups;
};

// What there is beside the choices: oneDNN on each layout, and ours where images lie channels-last (depthwise: any).
void bench_implementations(const Case& c, const onednn::Convolution& v, bool channels_last) {
  bench(c, "oneDNN as given", [&] { return onednn::convolution(v, {}, Inner::Given); });
  bench(c, "oneDNN channels-last", [&] { return onednn::convolution(v, {}, Inner::ChannelsLast); });
  bench(c, "oneDNN reordered", [&] { return onednn::convolution(v, {}, Inner::Best); });
  if (channels_last && serves_implicit_gemm(v)) bench(c, "own", [&] { return make_implicit_gemm(v, {}); });
  if (serves_depthwise(v)) bench(c, "own", [&] { return make_depthwise(v, {}); });
}

void bench_convolution(DType t, const Conv& v, bool channels_last) {
  const int64_t o = (v.size + 2 * v.padding - v.kernel) / v.stride + 1;
  const auto layout = channels_last ? channels_last_layout : dense_layout;
  const Layout x = layout(t, {v.n, v.c, v.size, v.size}), y = layout(t, {v.n, v.oc, o, o});
  const Layout w = dense_layout(t, {v.oc, v.c / v.groups, v.kernel, v.kernel});
  const ConvolutionParams p{{v.stride, v.stride}, {v.padding, v.padding}, {1, 1}, {0, 0}, false, v.groups};
  const double flops = 2.0 * v.n * v.oc * o * o * (v.c / v.groups) * v.kernel * v.kernel;
  char name[100];
  std::snprintf(name, sizeof name, "%s %s n%ld c%ld s%ld oc%ld k%ld/%ld g%ld", std::string(ir::name(t)).c_str(),
                channels_last ? "nhwc" : "nchw", v.n, v.c, v.size, v.oc, v.kernel, v.stride, v.groups);
  const std::pair<Case, std::function<std::unique_ptr<LibraryCall>(Effort)>> passes[] = {
      {{std::string("conv ") + name, flops, {x, w}, {y}},
       [&](Effort e) { return make_convolution(x, w, y, p, {}, e); }},
      {{std::string("conv_x ") + name, flops, {y, w}, {x}},
       [&](Effort e) { return make_convolution_input_grad(y, w, x, p, e); }},
      {{std::string("conv_w ") + name, flops, {y, x}, {w}},
       [&](Effort e) { return make_convolution_weight_grad(y, x, w, p, e); }}};
  for (const Pass pass : {Pass::Forward, Pass::InputGrad, Pass::WeightGrad}) {
    const auto& [c, make] = passes[static_cast<size_t>(pass)];
    bench(c, "chosen", [&] { return make(Effort::Much); });
    if (t == DType::F32) bench(c, "quick", [&] { return make(Effort::Little); });
    bench_implementations(c, {pass, x, w, y, p.stride, p.padding, p.dilation, p.groups, false}, channels_last);
  }
}

void bench_pooling(DType t, bool channels_last) {
  const auto layout = channels_last ? channels_last_layout : dense_layout;
  const Dims small{16, 64, 16, 16};
  const Layout x = layout(t, {16, 64, 32, 32}), y = layout(t, small), i = layout(DType::I64, small);
  const PoolParams p{{3, 3}, {2, 2}, {1, 1}};
  const std::string name = std::string(ir::name(t)) + (channels_last ? " nhwc" : " nchw");
  bench({"max_pool " + name, 0, {x}, {y, i}}, "chosen", [&] { return make_max_pool2d(x, y, i, p); });
  bench({"max_pool_x " + name, 0, {y, i}, {x}, 1024}, "chosen", [&] { return make_max_pool2d_grad(y, i, x); });
  bench({"avg_pool " + name, 0, {x}, {y}}, "chosen", [&] { return make_avg_pool2d(x, y, p); });
  bench({"avg_pool_x " + name, 0, {y}, {x}}, "chosen", [&] { return make_avg_pool2d_grad(y, x, p); });
}

void bench_indexing(DType t) {
  const Layout table = dense_layout(t, {30522, 384}), index = dense_layout(DType::I64, {2048}),
               src = dense_layout(t, {2048, 384});
  const std::string name(ir::name(t));
  bench({"index_add " + name + " 30522x384", 0, {table, index, src}, {table}, 30522, true}, "chosen",
        [&] { return make_index_add(table, index, src, table, 0); });
  const Layout a = dense_layout(t, {2048, 128}), wide = dense_layout(DType::I64, {2048, 128});
  bench({"scatter_add " + name + " 2048x128", 0, {a, wide, a}, {a}, 128, true}, "chosen",
        [&] { return make_scatter(a, wide, a, a, 1, ScatterMode::Add); });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) filter = argv[1];
  const PostOp::Kind bias = PostOp::Add, residual = PostOp::Add, gelu = PostOp::GeluErf;
  for (const Linear& v : std::vector<Linear>{{"BERT-base 2x128 query", 256, 768, 768, {bias}},
                                             {"BERT-base 2x128 projection", 256, 768, 768, {bias, residual}},
                                             {"BERT-base 2x128 wide", 256, 3072, 768, {bias, gelu}},
                                             {"BERT-base 2x128 narrow", 256, 768, 3072, {bias, residual}},
                                             {"ViT-small x4 query", 788, 1152, 384, {bias}},
                                             {"ViT-small x4 projection", 788, 384, 384, {bias, residual}},
                                             {"ViT-small x4 wide", 788, 1536, 384, {bias, gelu}},
                                             {"ViT-small x4 narrow", 788, 384, 1536, {bias, residual}},
                                             {"GPT-2 1x128 query", 128, 2304, 768, {bias}},
                                             {"GPT-2 1x128 vocabulary", 128, 50257, 768, {}}})
    bench_linear(v);
  for (DType t : {DType::F32, DType::BF16}) {
    for (auto [m, n, k] : std::vector<std::array<int64_t, 3>>{
             {4, 4, 4},        {1, 768, 768},    {1, 3072, 768},   {1, 768, 3072},   {8, 768, 768},
             {32, 128, 128},   {32, 768, 768},   {32, 3072, 768},  {16, 768, 768},   {64, 768, 768},
             {256, 768, 768},  {256, 3072, 768}, {256, 768, 3072}, {784, 1536, 384}, {784, 384, 1536},
             {1024, 768, 768}, {1536, 768, 768}, {128, 128, 128},  {128, 768, 768},  {512, 768, 768},
             {512, 3072, 768}, {512, 768, 3072}, {2048, 128, 512}, {2048, 768, 768}, {2048, 3072, 768},
             {768, 768, 2048}, {1024, 256, 480}, {256, 1024, 480}})
      bench_matmul(t, 0, m, n, k);
    for (auto [m, n, k] : std::vector<std::array<int64_t, 3>>{
             {64, 64, 32}, {128, 128, 64}, {128, 64, 128}, {64, 16, 64}, {128, 128, 16}})
      bench_matmul(t, 48, m, n, k);
    for (const Conv& v : std::vector<Conv>{{16, 3, 32, 64, 3, 1, 1, 1},
                                           {16, 64, 32, 64, 3, 1, 1, 1},
                                           {16, 64, 32, 128, 3, 2, 1, 1},
                                           {16, 64, 32, 128, 1, 2, 0, 1},
                                           {16, 128, 16, 128, 3, 1, 1, 1},
                                           {16, 256, 8, 256, 3, 1, 1, 1},
                                           {16, 512, 4, 512, 3, 1, 1, 1},
                                           {8, 3, 64, 64, 7, 2, 3, 1},
                                           {16, 64, 32, 256, 1, 1, 0, 1},
                                           {16, 128, 16, 128, 3, 1, 1, 128},
                                           {32, 1, 8, 32, 3, 1, 1, 1},
                                           {32, 32, 8, 32, 3, 1, 1, 1},
                                           {8, 3, 224, 768, 16, 16, 0, 1}})
      for (bool channels_last : {false, true}) bench_convolution(t, v, channels_last);
    for (bool channels_last : {false, true}) bench_pooling(t, channels_last);
    bench_indexing(t);
  }
  for (auto [m, n, k] : std::vector<std::array<int64_t, 3>>{{4, 4, 4}, {128, 128, 128}, {512, 768, 768}})
    bench_matmul(DType::F64, 0, m, n, k);
  return 0;
}
