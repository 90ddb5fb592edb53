#include "lowering/libraries/row_product.h"
#include <algorithm>
#include "lowering/libraries/clones.h"
#include "lowering/libraries/elements.h"
#include "lowering/libraries/little_work.h"
#include "lowering/libraries/post_ops.h"
#include "lowering/libraries/strided_copy.h"

namespace lazuli::lowering {
namespace {

constexpr int64_t kMostRows = 4, kColumns = 4;

// sums[i] = a . (column i of b), for kColumns columns that are `stride` apart.
struct Dots {
  template <class T>
  static LAZULI_INLINE void run(const float* a, const T* b, int64_t stride, int64_t k, float* sums) {
    const T *b0 = b, *b1 = b + stride, *b2 = b + 2 * stride, *b3 = b + 3 * stride;
    float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
    for (int64_t i = 0; i < k; ++i) {
      s0 += a[i] * static_cast<float>(b0[i]);
      s1 += a[i] * static_cast<float>(b1[i]);
      s2 += a[i] * static_cast<float>(b2[i]);
      s3 += a[i] * static_cast<float>(b3[i]);
    }
    sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
  }
};

class RowProduct final : public LibraryCall {
 public:
  RowProduct(const Layout& a, const Layout& b, const Layout& out, std::span<const PostOp> ops)
      : a_(a), b_(b), out_(out), rows_(dense_layout(ir::DType::F32, a.shape)), sums_(dense_layout(ir::DType::F32, out.shape)),
        ops_(broadcast_post_ops(ops, out.shape)) {
    sums_at_ = round_up_64(extent_bytes(rows_));
  }
  void run(const void* const* operands, void* const* results, void* scratch) override {
    float* rows = static_cast<float*>(scratch);
    float* sums = reinterpret_cast<float*>(static_cast<char*>(scratch) + sums_at_);
    strided_copy(a_, operands[0], rows_, rows);
    if (b_.dtype == ir::DType::F32) multiply(rows, static_cast<const float*>(operands[1]), sums);
    else multiply(rows, static_cast<const BFloat16*>(operands[1]), sums);
    run_post_ops(ops_, sums_, sums, operands + 2);
    strided_copy(sums_, sums, out_, results[0]);
  }
  size_t scratch_bytes() const override { return sums_at_ + round_up_64(extent_bytes(sums_)); }
  std::string describe() const override { return "row_product:own"; }

 private:
  template <class T>
  void multiply(const float* rows, const T* b, float* sums) const {
    const int64_t m = a_.shape[0], k = a_.shape[1], n = out_.shape[1], stride = b_.strides[1];
#pragma omp parallel for schedule(static) if (!is_little(m * n * k))
    for (int64_t block = 0; block < (n + kColumns - 1) / kColumns; ++block) {
      // The last block starts early instead of ending late: some of its columns are computed twice.
      const int64_t j = std::min(block * kColumns, n - kColumns);
      for (int64_t i = 0; i < m; ++i) {
        float dots[kColumns];
        run_for_host<Dots, const float*, const T*, int64_t, int64_t, float*>(rows + i * k, b + j * stride, stride, k, dots);
        for (int64_t c = block * kColumns - j; c < kColumns; ++c) sums[i * n + j + c] = dots[c];
      }
    }
  }

  Layout a_, b_, out_, rows_, sums_;
  std::vector<PostOp> ops_;
  size_t sums_at_;
};

bool cheap(const PostOp& op) { return has_operand(op) || op.kind == PostOp::Relu || op.kind == PostOp::Scale; }

}  // namespace

std::unique_ptr<LibraryCall> make_row_product(const Layout& a, const Layout& b, const Layout& out,
                                              std::span<const PostOp> post_ops) {
  if (out.shape.size() != 2 || (b.dtype != ir::DType::F32 && b.dtype != ir::DType::BF16)) return nullptr;
  const int64_t m = out.shape[0], n = out.shape[1], k = a.shape[1];
  if (m > kMostRows || n < kColumns || n * k < 65536 || b.strides[0] != 1 || b.strides[1] < k) return nullptr;
  if (!std::all_of(post_ops.begin(), post_ops.end(), cheap)) return nullptr;
  return std::make_unique<RowProduct>(a, b, out, post_ops);
}

}  // namespace lazuli::lowering
