#include "lowering/libraries/host_blas.h"
#include <algorithm>
#include <limits>
#include <omp.h>
#include "lowering/libraries/blas_product.h"
#include "lowering/libraries/little_work.h"

// Weak, so that they are null where no loaded library has them. liblazuli.so needs libtorch_cpu.so, in which the loader
// looks for them on its behalf, however torch itself was loaded.
extern "C" {
[[gnu::weak]] void dgemm_(const char* transa, const char* transb, const int* m, const int* n, const int* k,
                          const double* alpha, const double* a, const int* lda, const double* b, const int* ldb,
                          const double* beta, double* c, const int* ldc);
[[gnu::weak]] void sgemm_(const char* transa, const char* transb, const int* m, const int* n, const int* k,
                          const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
                          const float* beta, float* c, const int* ldc);
// MKL's alone. The number of threads of the calling thread's products; returns what it was, and 0 is for unset.
[[gnu::weak]] int MKL_Set_Num_Threads_Local(int threads);
}

namespace lazuli::lowering {
namespace {

// MKL keeps a number of threads of its own for each thread; while this lives it is the one given.
class BlasThreads {
 public:
  explicit BlasThreads(int threads) {
    if (MKL_Set_Num_Threads_Local) before_ = MKL_Set_Num_Threads_Local(threads);
  }
  ~BlasThreads() {
    if (MKL_Set_Num_Threads_Local) MKL_Set_Num_Threads_Local(before_);
  }
  BlasThreads(const BlasThreads&) = delete;
  BlasThreads& operator=(const BlasThreads&) = delete;

 private:
  int before_ = 0;
};

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

template <class T>
class HostBlasProduct final : public LibraryCall {
 public:
  explicit HostBlasProduct(BlasProduct product) : p_(std::move(product)), calls_(p_.batches) {
    for (const auto& o : p_.outer) calls_ *= o.size;
  }

  // Few products share the threads one after the other, many share them out.
  void run(const void* const* operands, void* const* results, void*) override {
    const T* first = static_cast<const T*>(operands[p_.swapped ? 1 : 0]);
    const T* second = static_cast<const T*>(operands[p_.swapped ? 0 : 1]);
    T* out = static_cast<T*>(results[0]);
    const int threads = is_little(calls_ * p_.m * p_.n * p_.k) ? 1 : omp_get_max_threads();
    if (threads == 1 || calls_ < threads) {
      const BlasThreads all(threads);
      for (int64_t i = 0; i < calls_; ++i) multiply(i, first, second, out);
      return;
    }
#pragma omp parallel num_threads(threads)
    {
      const BlasThreads one(1);
#pragma omp for schedule(static)
      for (int64_t i = 0; i < calls_; ++i) multiply(i, first, second, out);
    }
  }
  std::string describe() const override {
    return (sizeof(T) == 8 ? "dgemm:blas " : "sgemm:blas ") + lowering::describe(p_);
  }

 private:
  void multiply(int64_t call, const T* first, const T* second, T* out) const {
    const int64_t batch = call % p_.batches;
    first += batch * p_.a.batch_step, second += batch * p_.b.batch_step, out += batch * p_.d.batch_step;
    call /= p_.batches;
    for (const auto& o : p_.outer) {
      const int64_t at = call % o.size;
      first += at * o.a, second += at * o.b, out += at * o.d;
      call /= o.size;
    }
    const auto i = [](int64_t n) { return static_cast<int>(n); };
    gemm(p_.a.transposed ? "T" : "N", p_.b.transposed ? "T" : "N", i(p_.m), i(p_.n), i(p_.k), first, i(p_.a.leading),
         second, i(p_.b.leading), out, i(p_.d.leading));
  }

  BlasProduct p_;
  int64_t calls_;
};

bool fits(const BlasProduct& p) {
  constexpr int64_t most = std::numeric_limits<int>::max();
  return std::max({p.m, p.n, p.k, p.a.leading, p.b.leading, p.d.leading}) <= most;
}

}  // namespace

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
