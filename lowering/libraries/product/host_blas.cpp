#include "lowering/libraries/product/host_blas.h"
#include <algorithm>
#include <limits>
#include "lowering/instruction_sets/instruction_sets.h"
#include "lowering/libraries/product/blas_product.h"
#include "lowering/threads/blas_threads.h"
#include "lowering/threads/crew.h"
#include "lowering/threads/little_work.h"

// Weak, so that they are null where no loaded library has them. The plugin needs libtorch_cpu.so, in which the loader
// looks for them on its behalf, however torch itself was loaded.
extern "C" {
[[gnu::weak]] void dgemm_(const char* transa, const char* transb, const int* m, const int* n, const int* k,
                          const double* alpha, const double* a, const int* lda, const double* b, const int* ldb,
                          const double* beta, double* c, const int* ldc);
[[gnu::weak]] void sgemm_(const char* transa, const char* transb, const int* m, const int* n, const int* k,
                          const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
                          const float* beta, float* c, const int* ldc);
}

namespace lazuli::lowering {
namespace {

void gemm(const char* transa, const char* transb, int m, int n, int k, const double* a, int lda, const double* b,
          int ldb, double* c, int ldc) {
  const double one = 1, zero = 0;
  dgemm_(transa, transb, &m, &n, &k, &one, a, &lda, b, &ldb, &zero, c, &ldc);
}
void gemm(const char* transa, const char* transb, int m, int n, int k, const float* a, int lda, const float* b, int ldb,
          float* c, int ldc) {
  const float one = 1, zero = 0;
  sgemm_(transa, transb, &m, &n, &k, &one, a, &lda, b, &ldb, &zero, c, &ldc);
}

// A product in pieces of columns or of rows, which depend on its layouts alone: BLAS computes each on one thread, for
// another number of threads gives other bits. BLAS reorders the first matrix where that is transposed, and would do so
// once more for each piece of columns: then rows are cut (MKL, 2 threads' pieces of 256 x 400 x 256: 215 against 175
// GFLOP/s). Its kernels take 48 rows at a time, and other pieces of rows leave some that are slow.
struct Pieces {
  explicit Pieces(const BlasProduct& p) : of_m(p.a.transposed) {
    constexpr int64_t kWork = 512 * 1024, kMost = 64, kEnough = 4, kRows = 48, kColumns = 64;
    const int64_t work = p.m * p.n * p.k, wanted = is_little(work) ? 1 : std::clamp<int64_t>(work / kWork, 1, kMost);
    const auto whole = [&](bool rows) { return int64_t{rows ? p.m : p.n}; };
    const auto size_of = [&](bool rows) {
      const int64_t multiple = rows ? kRows : kColumns / 4;
      return std::max(rows ? kRows : kColumns,
                      ((whole(rows) + wanted - 1) / wanted + multiple - 1) / multiple * multiple);
    };
    const auto count_of = [&](bool rows) { return (whole(rows) + size_of(rows) - 1) / size_of(rows); };
    // Threads without a piece are worse than a slow piece.
    if (count_of(of_m) < std::min(count_of(!of_m), kEnough)) of_m = !of_m;
    size = size_of(of_m), count = count_of(of_m);
  }
  bool of_m;
  int64_t size, count;
};

template <class T>
class HostBlasProduct final : public LibraryCall {
 public:
  explicit HostBlasProduct(BlasProduct product)
      : p_(std::move(product)), pieces_(p_), calls_(p_.batches * pieces_.count) {
    for (const auto& o : p_.outer) calls_ *= o.size;
  }

  void run(const void* const* operands, void* const* results, void*) override {
    const T* first = static_cast<const T*>(operands[p_.swapped ? 1 : 0]);
    const T* second = static_cast<const T*>(operands[p_.swapped ? 0 : 1]);
    T* out = static_cast<T*>(results[0]);
    const bool worth = !is_little(calls_ / pieces_.count * p_.m * p_.n * p_.k);
    share_out(calls_, worth, [&](int64_t begin, int64_t end, int) {
      const BlasThreads one(1);
      for (int64_t i = begin; i < end; ++i) multiply(i, first, second, out);
    });
  }
  std::string describe() const override {
    return (sizeof(T) == 8 ? "dgemm:blas " : "sgemm:blas ") + lowering::describe(p_);
  }
  // Others than MKL cannot be told how many to use.
  bool depends_on_threads() const override { return !BlasThreads::can_be_set(); }

 private:
  void multiply(int64_t call, const T* first, const T* second, T* out) const {
    const int64_t begin = call % pieces_.count * pieces_.size;
    call /= pieces_.count;
    const int64_t batch = call % p_.batches;
    first += batch * p_.a.batch_step, second += batch * p_.b.batch_step, out += batch * p_.d.batch_step;
    call /= p_.batches;
    for (const auto& o : p_.outer) {
      const int64_t at = call % o.size;
      first += at * o.a, second += at * o.b, out += at * o.d;
      call /= o.size;
    }
    int64_t m = p_.m, n = p_.n;
    if (pieces_.of_m) {
      m = std::min(pieces_.size, m - begin);
      first += begin * (p_.a.transposed ? int64_t{p_.a.leading} : 1), out += begin;
    } else {
      n = std::min(pieces_.size, n - begin);
      second += begin * (p_.b.transposed ? 1 : int64_t{p_.b.leading}), out += begin * p_.d.leading;
    }
    const auto i = [](int64_t size) { return static_cast<int>(size); };
    gemm(p_.a.transposed ? "T" : "N", p_.b.transposed ? "T" : "N", i(m), i(n), i(p_.k), first, i(p_.a.leading), second,
         i(p_.b.leading), out, i(p_.d.leading));
  }

  BlasProduct p_;
  Pieces pieces_;
  int64_t calls_;
};

bool fits(const BlasProduct& p) {
  constexpr int64_t most = std::numeric_limits<int>::max();
  return std::max({p.m, p.n, p.k, p.a.leading, p.b.leading, p.d.leading}) <= most;
}

}  // namespace

bool host_blas_is_as_wide() {
  static const bool is_intel = (__builtin_cpu_init(), __builtin_cpu_is("intel"));
  return is_intel || !BlasThreads::can_be_set() || host_instruction_set() != InstructionSet::Avx512;
}

std::unique_ptr<LibraryCall> make_host_blas_product(const Layout& a, const Layout& b, const Layout& out) {
  const bool wide = out.dtype == ir::DType::F64;
  if (wide ? !dgemm_ : !sgemm_ || out.dtype != ir::DType::F32) return nullptr;
  if (a.dtype != out.dtype || b.dtype != out.dtype) return nullptr;
  auto product = blas_product(a, b, out, nullptr, false);
  if (!product || !fits(*product)) return nullptr;
  if (wide) return std::make_unique<HostBlasProduct<double>>(std::move(*product));
  return std::make_unique<HostBlasProduct<float>>(std::move(*product));
}

}  // namespace lazuli::lowering
