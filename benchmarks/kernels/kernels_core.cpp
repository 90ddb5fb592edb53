// Generated CPU kernels on their own, one thread: compile time, ns per element and GB/s, for L2-sized and memory-sized
// data. Usage: kernels_core [avx2]
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "jit/kernels/compiler.h"
#include "tests/lowering/nest_builder.h"

using namespace lazuli;
using ir::DType;
using ir::Prim;
using lowering::Reduce;
using lowering::Schedule;
using testing::NestBuilder;
using VS = lowering::VectorStride;

namespace {

double now_ns() {
  using namespace std::chrono;
  return duration<double, std::nano>(steady_clock::now().time_since_epoch()).count();
}

// Compile times are of this thread's processor time, which a busy machine does not lengthen.
double cpu_ms() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

struct Bench {
  const char* name;
  lowering::LoopNest nest;
  bool wide_rows = true;  // 1024 columns; otherwise one long dimension
};

Bench unary(const char* name, Prim p, DType t = DType::F32) {
  NestBuilder b(Schedule::Column, 1, 0);
  b.store(b.prim(p, b.load(t)), t);
  return {name, b.nest(), false};
}
Bench binary(const char* name, Prim p, DType t) {
  NestBuilder b(Schedule::Column, 1, 0);
  b.store(b.prim(p, b.load(t), b.load(t)), t);
  return {name, b.nest(), false};
}
Bench gelu(DType t) {
  NestBuilder b(Schedule::Column, 1, 0);
  auto x = b.load(t);
  auto e = b.prim(Prim::erf, b.prim(Prim::mul, x, b.literal(0.70710678118654752440)));
  b.store(b.prim(Prim::mul, b.prim(Prim::mul, b.literal(0.5), x), b.prim(Prim::add, b.literal(1), e)), t);
  return {t == DType::F32 ? "gelu f32" : "gelu bf16", b.nest(), false};
}
Bench adamw() {
  NestBuilder b(Schedule::Column, 1, 0);
  auto p = b.load(DType::F32), g = b.load(DType::F32), m = b.load(DType::F32), v = b.load(DType::F32);
  auto lr = b.param(DType::F32), b1 = b.param(DType::F32), b2 = b.param(DType::F32), c = b.param(DType::F32);
  m = b.prim(Prim::add, m, b.prim(Prim::mul, b1, b.prim(Prim::sub, g, m)));
  v = b.prim(Prim::add, b.prim(Prim::mul, b2, v), b.prim(Prim::mul, c, b.prim(Prim::mul, g, g)));
  auto d = b.prim(Prim::add, b.prim(Prim::sqrt, v), b.literal(1e-8));
  p = b.prim(Prim::sub, p, b.prim(Prim::mul, lr, b.prim(Prim::div, m, d)));
  b.store(p, DType::F32);
  b.store(m, DType::F32);
  b.store(v, DType::F32);
  return {"adamw", b.nest(), false};
}
Bench softmax() {
  NestBuilder b(Schedule::Row, 2, 1);
  auto x = b.load(DType::F32);
  auto top = b.reduce(Reduce::Max, x, DType::F32);
  b.stage();
  auto sum = b.reduce(Reduce::Sum, b.prim(Prim::exp, b.prim(Prim::sub, b.reload(x), top)), DType::F32);
  b.stage().row();
  auto scale = b.prim(Prim::reciprocal, sum);
  b.row(false);
  b.store(b.prim(Prim::mul, b.prim(Prim::exp, b.prim(Prim::sub, b.reload(x), top)), scale), DType::F32);
  return {"softmax rows", b.nest()};
}
Bench layer_norm() {
  NestBuilder b(Schedule::Row, 2, 1);
  auto x = b.load(DType::F32);
  auto sum = b.reduce(Reduce::Sum, x, DType::F32);
  b.stage().row();
  auto n = b.param(DType::F32);
  auto mean = b.prim(Prim::mul, sum, n);
  b.row(false);
  auto d = b.prim(Prim::sub, b.reload(x), mean);
  auto squares = b.reduce(Reduce::Sum, b.prim(Prim::mul, d, d), DType::F32);
  b.stage().row();
  auto scale = b.prim(Prim::rsqrt, b.prim(Prim::add, b.prim(Prim::mul, squares, n), b.literal(1e-5)));
  b.row(false);
  auto y = b.prim(Prim::mul, b.prim(Prim::sub, b.reload(x), mean), scale);
  b.store(b.prim(Prim::fma, y, b.load(DType::F32), b.load(DType::F32)), DType::F32);
  return {"layer norm rows", b.nest()};
}
Bench row_sum() {
  NestBuilder b(Schedule::Row, 2, 1);
  auto sum = b.reduce(Reduce::Sum, b.load(DType::F32), DType::F32);
  b.stage().row();
  b.store(sum, DType::F32, VS::Zero);
  return {"row sum", b.nest()};
}
Bench column_sum(DType t) {
  NestBuilder b(Schedule::Column, 2, 1);
  auto sum = b.reduce(Reduce::Sum, b.load(t), DType::F32);
  b.stage().row();
  b.store(sum, DType::F32);
  return {t == DType::F32 ? "column sum" : "column sum bf16", b.nest()};
}
Bench random_numbers() {
  NestBuilder b(Schedule::Column, 1, 0);
  auto seed = b.param(DType::I64), offset = b.param(DType::I64);
  b.store(b.prim_as(Prim::random, DType::F32, seed, offset, b.position(0)), DType::F32);
  return {"random", b.nest(), false};
}
Bench transpose() {
  NestBuilder b(Schedule::Column, 2, 0);
  b.store(b.load(DType::F32, VS::Any), DType::F32);
  return {"transpose", b.nest()};
}

void measure(jit::Compiler& compiler, const Bench& bench, int64_t elements) {
  static int count = 0;
  const lowering::LoopNest& nest = bench.nest;
  const std::string symbol = "bench" + std::to_string(count++);
  double start = cpu_ms();
  const jit::ObjectCode code = compiler.compile(nest, symbol);
  const double compile_ms = cpu_ms() - start;
  start = cpu_ms();
  const jit::LoadedKernel kernel = compiler.load(code);
  const double load_ms = cpu_ms() - start;

  const bool reduced_rows = nest.schedule == Schedule::Column && nest.reduced;
  std::vector<int64_t> sizes(nest.rank, 1);
  sizes.back() = nest.rank == 1 ? elements : 1024;
  if (nest.rank == 2) sizes[0] = elements / 1024;
  if (reduced_rows) std::swap(sizes[0], sizes[1]);  // [columns, rows]: kept first
  const lowering::KernelArgsLayout layout(nest);
  std::vector<int64_t> args(layout.total);
  args[0] = reduced_rows ? 256 : 16384;
  std::copy(sizes.begin(), sizes.end(), args.begin() + layout.sizes);
  std::vector<void*> buffers;
  double bytes = 0;
  for (size_t a = 0; a < nest.accesses.size(); ++a) {
    const lowering::Access& access = nest.accesses[a];
    const size_t item = static_cast<size_t>(ir::item_size(access.dtype));
    buffers.push_back(std::aligned_alloc(64, (elements * item + 63) / 64 * 64));
    std::memset(buffers[a], 0, static_cast<size_t>(elements) * item);
    for (int64_t i = 0; i < elements; ++i) {
      const float x = static_cast<float>(i % 1000) / 100 - 4.99f;
      if (access.dtype == DType::F32) static_cast<float*>(buffers[a])[i] = x;
      if (access.dtype == DType::F64) static_cast<double*>(buffers[a])[i] = x;
      if (item == 2) static_cast<uint16_t*>(buffers[a])[i] = static_cast<uint16_t>(0x3F80 + i % 64);
    }
    args[layout.pointers + a] = reinterpret_cast<int64_t>(buffers[a]);
    int64_t* strides = &args[layout.strides + a * nest.rank];
    const bool across = access.stride == VS::Any || reduced_rows;
    if (nest.rank == 2) strides[0] = access.row ? 1 : across ? 1 : sizes[1];
    if (nest.rank == 2 && !access.row) strides[1] = across ? sizes[0] : 1;
    if (nest.rank == 2 && a >= 1 && a <= 2 && bench.name[0] == 'l')
      strides[0] = 0;  // layer norm's weight and bias
    else if (!access.row)
      bytes += static_cast<double>(item);
  }
  for (size_t p = 0; p < nest.params; ++p) args[layout.params + p] = std::bit_cast<int64_t>(1e-3);

  const int64_t units = lowering::units(nest, args.data());
  double best = 1e30, until = now_ns() + 1e8;
  do {
    start = now_ns();
    kernel(args.data(), 0, units);
    best = std::min(best, now_ns() - start);
  } while (now_ns() < until);
  std::printf("%-18s %9ld  %7.3f ns/element  %7.1f GB/s   compile %.2f + %.2f ms, %zu bytes\n", bench.name, elements,
              best / static_cast<double>(elements), bytes * static_cast<double>(elements) / best, compile_ms, load_ms,
              code.bytes.size());
  for (void* p : buffers) std::free(p);
}

}  // namespace

int main(int argc, char** argv) {
  jit::Compiler compiler(argc > 1 ? argv[1] : "");
  (void)compiler.compile(unary("warm", Prim::neg).nest, "warm");
  std::vector<Bench> all = {binary("add f32", Prim::add, DType::F32),
                            binary("add bf16", Prim::add, DType::BF16),
                            binary("add f16", Prim::add, DType::F16),
                            binary("add i64", Prim::add, DType::I64),
                            binary("add i8", Prim::add, DType::I8),
                            gelu(DType::F32),
                            gelu(DType::BF16),
                            adamw(),
                            softmax(),
                            layer_norm(),
                            row_sum(),
                            column_sum(DType::F32),
                            column_sum(DType::BF16),
                            transpose(),
                            random_numbers()};
  for (Prim p = Prim::exp; p <= Prim::erfc; p = static_cast<Prim>(static_cast<int>(p) + 1))
    all.push_back(unary(ir::info(p).name, p));
  all.push_back(binary("pow", Prim::pow, DType::F32));
  all.push_back(binary("atan2", Prim::atan2, DType::F32));
  for (const Bench& b : all) measure(compiler, b, 65536);
  for (const Bench& b : all)
    if (&b < &all[14]) measure(compiler, b, 16 << 20);
}
