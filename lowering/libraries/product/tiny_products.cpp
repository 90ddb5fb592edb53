#include "lowering/libraries/product/tiny_products.h"
#include <algorithm>
#include <utility>
#include "lowering/instruction_sets/instruction_sets.h"
#include "lowering/threads/little_work.h"

namespace lazuli::lowering {
namespace {

constexpr int64_t kMostDepth = 8, kMostPairs = 128;

// Where the matrices of a loop are: the first one, from its row to the next and from column to column, and from one to
// the next one.
template <class T>
struct Matrices {
  T* first;
  int64_t row, column, next;
};

// `fixed`: of square matrices, or of square ones times vectors (columns = 1), whose loops are unrolled. Else 0.
template <int64_t depth, int64_t fixed>
struct Multiply {
  template <class T>
  static LAZULI_INLINE void run(Matrices<const T> a, Matrices<const T> b, Matrices<T> out, int64_t count, int64_t rows,
                                int64_t columns) {
    const int64_t m = fixed ? depth : rows, n = fixed ? fixed : columns;
    for (int64_t p = 0; p < count; ++p, a.first += a.next, b.first += b.next, out.first += out.next)
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          T sum = a.first[i * a.row] * b.first[j * b.column];
          for (int64_t d = 1; d < depth; ++d)
            sum += a.first[i * a.row + d * a.column] * b.first[d * b.row + j * b.column];
          out.first[i * out.row + j * out.column] = sum;
        }
  }
};

class TinyProducts final : public LibraryCall {
 public:
  TinyProducts(const Layout& a, const Layout& b, const Layout& out) : a_(a), b_(b), out_(out), rank_(out.shape.size()) {
    m_ = out.shape[rank_ - 2], n_ = out.shape[rank_ - 1], k_ = a.shape[rank_ - 1];
    for (size_t d = 0; d + 2 < rank_; ++d) (d + 3 < rank_ ? outer_ : inner_) *= out.shape[d];
  }

  void run(const void* const* operands, void* const* results, void*) override {
    out_.dtype == ir::DType::F32 ? multiply<float>(operands, results[0]) : multiply<double>(operands, results[0]);
  }
  std::string describe() const override { return "tiny products"; }

 private:
  template <class T>
  void multiply(const void* const* operands, void* result) const {
    const bool is_worth = !is_little(outer_ * inner_ * m_ * n_ * k_);
    share_out(outer_ * inner_, is_worth, [&](int64_t begin, int64_t end, int) {
      for (int64_t p = begin; p < end;) {
        const int64_t first = p % inner_, count = std::min(inner_ - first, end - p);
        multiply_some(of<const T>(a_, operands[0], p), of<const T>(b_, operands[1], p), of<T>(out_, result, p), count);
        p += count;
      }
    });
  }

  template <class T>
  void multiply_some(Matrices<const T> a, Matrices<const T> b, Matrices<T> out, int64_t count) const {
    with_depth(k_, [&](auto depth) {
      const auto multiply = [&](auto fixed) {
        run_for_host<Multiply<depth(), fixed()>, Matrices<const T>, Matrices<const T>, Matrices<T>, int64_t, int64_t,
                     int64_t>(a, b, out, count, m_, n_);
      };
      constexpr bool unrolls = depth() >= 2 && depth() <= 4;
      if (unrolls && m_ == k_ && n_ == k_) return multiply(std::integral_constant<int64_t, unrolls ? depth() : 0>());
      if (unrolls && m_ == k_ && n_ == 1) return multiply(std::integral_constant<int64_t, unrolls ? 1 : 0>());
      multiply(std::integral_constant<int64_t, 0>());
    });
  }

  template <class F>
  static void with_depth(int64_t k, const F& f) {
    [&]<int64_t... depths>(std::integer_sequence<int64_t, depths...>) {
      ((k == depths + 1 ? f(std::integral_constant<int64_t, depths + 1>()) : void()), ...);
    }(std::make_integer_sequence<int64_t, kMostDepth>());
  }

  // The matrices from number `p` on.
  template <class T, class Memory>
  Matrices<T> of(const Layout& x, Memory* memory, int64_t p) const {
    int64_t at = 0;
    for (size_t d = rank_ - 2; d-- > 0; p /= out_.shape[d]) at += p % out_.shape[d] * x.strides[d];
    return {static_cast<T*>(memory) + at, x.strides[rank_ - 2], x.strides[rank_ - 1],
            rank_ > 2 ? int64_t{x.strides[rank_ - 3]} : int64_t{0}};
  }

  const Layout a_, b_, out_;
  const size_t rank_;
  int64_t m_, n_, k_, outer_ = 1, inner_ = 1;
};

}  // namespace

bool are_tiny_products(const Layout& a, const Layout& b, const Layout& out) {
  const size_t rank = out.shape.size();
  const int64_t m = out.shape[rank - 2], n = out.shape[rank - 1], k = a.shape[rank - 1];
  return (out.dtype == ir::DType::F32 || out.dtype == ir::DType::F64) && a.dtype == out.dtype && b.dtype == out.dtype &&
         k > 0 && k <= kMostDepth && m * n * k <= kMostPairs;
}

std::unique_ptr<LibraryCall> make_tiny_products(const Layout& a, const Layout& b, const Layout& out) {
  return std::make_unique<TinyProducts>(a, b, out);
}

}  // namespace lazuli::lowering
