#include "lowering/libraries/host_blas.h"
#include <omp.h>
#include <algorithm>
#include <limits>
#include "lowering/libraries/blas_product.h"

// Weak, so that they are null where no loaded library has them. liblazuli.so needs libtorch_cpu.so, in which the loader
// looks for them on its behalf, however torch itself was loaded.
extern "C" {
[[gnu::weak]] void dgemm_(const char* transa, const char* transb, const int* m, const int* n, const int* k,
                          const double* alpha, const double* a, const int* lda, const double* b, const int* ldb,
                          const double* beta, double* c, const int* ldc);
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

class HostBlasProduct final : public LibraryCall {
 public:
  explicit HostBlasProduct(BlasProduct product) : p_(std::move(product)), calls_(p_.batches) {
    for (const auto& o : p_.outer) calls_ *= o.size;
  }

  // Few products share the threads one after the other, many share them out.
  void run(const void* const* operands, void* const* results, void*) override {
    const double* first = static_cast<const double*>(operands[p_.swapped ? 1 : 0]);
    const double* second = static_cast<const double*>(operands[p_.swapped ? 0 : 1]);
    double* out = static_cast<double*>(results[0]);
    const int threads = omp_get_max_threads();
    if (threads == 1 || calls_ < threads || calls_ * p_.m * p_.n * p_.k <= kSerial) {
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
  std::string describe() const override { return "dgemm:blas " + lowering::describe(p_); }

 private:
  // Multiplications that are not worth waking other threads for.
  static constexpr int64_t kSerial = 32768;

  void multiply(int64_t call, const double* first, const double* second, double* out) const {
    const int64_t batch = call % p_.batches;
    first += batch * p_.a.batch_step, second += batch * p_.b.batch_step, out += batch * p_.d.batch_step;
    call /= p_.batches;
    for (const auto& o : p_.outer) {
      const int64_t at = call % o.size;
      first += at * o.a, second += at * o.b, out += at * o.d;
      call /= o.size;
    }
    const int m = static_cast<int>(p_.m), n = static_cast<int>(p_.n), k = static_cast<int>(p_.k);
    const int lda = static_cast<int>(p_.a.leading), ldb = static_cast<int>(p_.b.leading);
    const int ldc = static_cast<int>(p_.d.leading);
    const double one = 1, zero = 0;
    dgemm_(p_.a.transposed ? "T" : "N", p_.b.transposed ? "T" : "N", &m, &n, &k, &one, first, &lda, second, &ldb, &zero, out,
           &ldc);
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
  if (!dgemm_) return nullptr;
  for (const Layout* l : {&a, &b, &out})
    if (l->dtype != ir::DType::F64) return nullptr;
  auto product = blas_product(a, b, out, nullptr, false);
  if (!product || !fits(*product)) return nullptr;
  return std::make_unique<HostBlasProduct>(std::move(*product));
}

}  // namespace lazuli::lowering
