#include "lowering/libraries/product/row_product.h"
#include <algorithm>
#include <type_traits>
#include "lowering/instruction_sets/instruction_sets.h"
#include "lowering/libraries/elements.h"
#include "lowering/libraries/post_ops.h"
#include "lowering/libraries/strided_copy.h"
#include "lowering/threads/crew.h"
#include "lowering/threads/little_work.h"

namespace lazuli::lowering {
namespace {

constexpr int64_t kMostRows = 4;

// sums[i][j] = (row i of a) . (column j of b), for M rows that are `a_stride` apart and C columns that are `b_stride`
// apart, each of k numbers side by side. A column is read once for all rows.
template <int64_t M, int64_t C>
struct Dots {
  template <class T>
  static LAZULI_INLINE void run(const float* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t k,
                                float* sums) {
    const float *a0 = a, *a1 = a + a_stride, *a2 = a + 2 * a_stride, *a3 = a + 3 * a_stride;
    const T *b0 = b, *b1 = b + b_stride, *b2 = b + 2 * b_stride, *b3 = b + 3 * b_stride;
    float s00 = 0, s01 = 0, s02 = 0, s03 = 0, s10 = 0, s11 = 0, s12 = 0, s13 = 0;
    float s20 = 0, s21 = 0, s30 = 0, s31 = 0;
#pragma omp simd reduction(+ : s00, s01, s02, s03, s10, s11, s12, s13, s20, s21, s30, s31)
    for (int64_t i = 0; i < k; ++i) {
      const float x0 = a0[i], y0 = static_cast<float>(b0[i]), y1 = static_cast<float>(b1[i]);
      s00 += x0 * y0, s01 += x0 * y1;
      if constexpr (M > 1) s10 += a1[i] * y0, s11 += a1[i] * y1;
      if constexpr (M > 2) s20 += a2[i] * y0, s21 += a2[i] * y1;
      if constexpr (M > 3) s30 += a3[i] * y0, s31 += a3[i] * y1;
      if constexpr (C > 2) {
        const float y2 = static_cast<float>(b2[i]), y3 = static_cast<float>(b3[i]);
        s02 += x0 * y2, s03 += x0 * y3;
        if constexpr (M > 1) s12 += a1[i] * y2, s13 += a1[i] * y3;
      }
    }
    const float all[4][4] = {{s00, s01, s02, s03}, {s10, s11, s12, s13}, {s20, s21}, {s30, s31}};
    for (int64_t i = 0; i < M; ++i)
      for (int64_t j = 0; j < C; ++j) sums[i * C + j] = all[i][j];
  }
};

// sums[i][j] += over four rows r of b: a[i][r] * b[r][j], for M rows i and n columns j. b is read as it lies, once.
template <int64_t M>
struct FourRows {
  template <class T>
  static LAZULI_INLINE void run(const float* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t n, float* sums,
                                int64_t sums_stride) {
    const T *b0 = b, *b1 = b + b_stride, *b2 = b + 2 * b_stride, *b3 = b + 3 * b_stride;
    const auto factor = [&](int64_t i, int64_t r) { return i < M ? a[i * a_stride + r] : 0; };
    const float a00 = factor(0, 0), a01 = factor(0, 1), a02 = factor(0, 2), a03 = factor(0, 3);
    const float a10 = factor(1, 0), a11 = factor(1, 1), a12 = factor(1, 2), a13 = factor(1, 3);
    const float a20 = factor(2, 0), a21 = factor(2, 1), a22 = factor(2, 2), a23 = factor(2, 3);
    const float a30 = factor(3, 0), a31 = factor(3, 1), a32 = factor(3, 2), a33 = factor(3, 3);
    float *s0 = sums, *s1 = s0 + sums_stride, *s2 = s1 + sums_stride, *s3 = s2 + sums_stride;
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) {
      const float y0 = static_cast<float>(b0[j]), y1 = static_cast<float>(b1[j]), y2 = static_cast<float>(b2[j]),
                  y3 = static_cast<float>(b3[j]);
      s0[j] = (((s0[j] + a00 * y0) + a01 * y1) + a02 * y2) + a03 * y3;
      if constexpr (M > 1) s1[j] = (((s1[j] + a10 * y0) + a11 * y1) + a12 * y2) + a13 * y3;
      if constexpr (M > 2) s2[j] = (((s2[j] + a20 * y0) + a21 * y1) + a22 * y2) + a23 * y3;
      if constexpr (M > 3) s3[j] = (((s3[j] + a30 * y0) + a31 * y1) + a32 * y2) + a33 * y3;
    }
  }
};

// Calls f with the number of rows, from 1 to kMostRows, as a constant.
template <class F>
void with_rows(int64_t rows, F f) {
  switch (rows) {
    case 1:
      return f(std::integral_constant<int64_t, 1>());
    case 2:
      return f(std::integral_constant<int64_t, 2>());
    case 3:
      return f(std::integral_constant<int64_t, 3>());
    default:
      return f(std::integral_constant<int64_t, 4>());
  }
}

class RowProduct final : public LibraryCall {
 public:
  RowProduct(const Layout& a, const Layout& b, const Layout& out, std::span<const PostOp> ops)
      : a_(a),
        b_(b),
        out_(out),
        m_(a.shape[0]),
        k_(a.shape[1]),
        n_(out.shape[1]),
        by_columns_(b.strides[0] == 1),
        stride_(by_columns_ ? b.strides[1] : b.strides[0]),
        rows_(dense_layout(ir::DType::F32, a.shape)),
        sums_(dense_layout(ir::DType::F32, out.shape)),
        ops_(broadcast_post_ops(ops, out.shape)) {
    sums_at_ = round_up_64(extent_bytes(rows_));
  }
  void run(const void* const* operands, void* const* results, void* scratch) override {
    float* rows = static_cast<float*>(scratch);
    float* sums = reinterpret_cast<float*>(static_cast<char*>(scratch) + sums_at_);
    strided_copy(a_, operands[0], rows_, rows);
    if (b_.dtype == ir::DType::F32)
      multiply(rows, static_cast<const float*>(operands[1]), sums);
    else
      multiply(rows, static_cast<const BFloat16*>(operands[1]), sums);
    run_post_ops(ops_, sums_, sums, operands + 2);
    strided_copy(sums_, sums, out_, results[0]);
  }
  size_t scratch_bytes() const override { return sums_at_ + round_up_64(extent_bytes(sums_)); }
  std::string describe() const override { return "row_product:own"; }

 private:
  // Of the result, so that threads write to lines of their own. Beginnings depend on sizes alone.
  int64_t columns_a_piece() const {
    constexpr int64_t kLeast = 128, kMost = 1024, kPieces = 4, kLine = 16;
    return std::clamp((n_ / kPieces + kLine - 1) / kLine * kLine, kLeast, kMost);
  }

  template <class T>
  void multiply(const float* rows, const T* b, float* sums) const {
    const int64_t piece = columns_a_piece();
    share_out((n_ + piece - 1) / piece, !is_little(m_ * n_ * k_), [&](int64_t begin, int64_t end, int) {
      for (int64_t j = begin * piece, last = std::min(n_, end * piece); j < last; j += piece)
        with_rows(m_, [&](auto count) {
          constexpr int64_t M = decltype(count)::value;
          const int64_t n = std::min(piece, last - j);
          by_columns_ ? dots<M>(rows, b + j * stride_, n, sums + j) : add_rows<M>(rows, b + j, n, sums + j);
        });
    });
  }

  template <int64_t M, class T>
  void dots(const float* rows, const T* b, int64_t n, float* sums) const {
    constexpr int64_t C = M > 2 ? 2 : 4;
    float found[M * C];
    int64_t j = 0;
    for (; j + C <= n; j += C) {
      run_for_host<Dots<M, C>, const float*, int64_t, const T*, int64_t, int64_t, float*>(rows, k_, b + j * stride_,
                                                                                          stride_, k_, found);
      for (int64_t i = 0; i < M; ++i) std::copy_n(found + i * C, C, sums + i * n_ + j);
    }
    for (; j < n; ++j) {  // one column as if it were C
      run_for_host<Dots<M, C>, const float*, int64_t, const T*, int64_t, int64_t, float*>(rows, k_, b + j * stride_, 0,
                                                                                          k_, found);
      for (int64_t i = 0; i < M; ++i) sums[i * n_ + j] = found[i * C];
    }
  }

  template <int64_t M, class T>
  void add_rows(const float* rows, const T* b, int64_t n, float* sums) const {
    for (int64_t i = 0; i < M; ++i) std::fill_n(sums + i * n_, n, 0.f);
    int64_t r = 0;
    for (; r + 4 <= k_; r += 4)
      run_for_host<FourRows<M>, const float*, int64_t, const T*, int64_t, int64_t, float*, int64_t>(
          rows + r, k_, b + r * stride_, stride_, n, sums, n_);
    for (; r < k_; ++r)
      for (int64_t i = 0; i < M; ++i)
        for (int64_t j = 0; j < n; ++j) sums[i * n_ + j] += rows[i * k_ + r] * static_cast<float>(b[r * stride_ + j]);
  }

  Layout a_, b_, out_;
  int64_t m_, k_, n_;
  bool by_columns_;  // b's columns lie side by side in memory; else its rows do
  int64_t stride_;
  Layout rows_, sums_;
  std::vector<PostOp> ops_;
  size_t sums_at_;
};

bool cheap(const PostOp& op) { return has_operand(op) || op.kind == PostOp::Relu || op.kind == PostOp::Scale; }

}  // namespace

std::unique_ptr<LibraryCall> make_row_product(const Layout& a, const Layout& b, const Layout& out,
                                              std::span<const PostOp> post_ops) {
  if (out.shape.size() != 2 || (b.dtype != ir::DType::F32 && b.dtype != ir::DType::BF16)) return nullptr;
  const int64_t m = out.shape[0], n = out.shape[1], k = a.shape[1];
  const bool columns = b.strides[0] == 1 && b.strides[1] >= k, rows = b.strides[1] == 1 && b.strides[0] >= n;
  if (m > kMostRows || n < 4 || n * k < 65536 || !(columns || rows)) return nullptr;
  if (!std::all_of(post_ops.begin(), post_ops.end(), cheap)) return nullptr;
  return std::make_unique<RowProduct>(a, b, out, post_ops);
}

}  // namespace lazuli::lowering
