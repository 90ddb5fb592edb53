#include "lowering/libraries/product/row_product.h"
#include <algorithm>
#include <type_traits>
#include "lowering/libraries/post_ops.h"
#include "lowering/libraries/product/row_kernels.h"
#include "lowering/libraries/strided_copy.h"
#include "lowering/threads/crew.h"
#include "lowering/threads/little_work.h"

namespace lazuli::lowering {
namespace {

// Calls f with the number of rows, from 1 to `most`, as a constant.
template <int64_t most, class F>
void with_rows(int64_t rows, F f) {
  if constexpr (most > 1)
    if (rows < most) return with_rows<most - 1>(rows, f);
  f(std::integral_constant<int64_t, most>());
}

int64_t most_rows() {
  return for_host([](auto set) { return kMostRows<set()>; });
}

constexpr int64_t kMostOperands = 8;      // of post-ops
constexpr int64_t kMostRowsOfBlocks = 4;  // with more, packed weights are faster

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
    const auto all = [&](const auto* b) {
      const int64_t piece = columns_a_piece();
      share_out((n_ + piece - 1) / piece, !is_little(m_ * n_ * k_), [&](int64_t begin, int64_t end, int) {
        const int64_t first = begin * piece, count = std::min(n_, end * piece) - first;
        multiply(rows, b + first * (by_columns_ ? stride_ : 1), count, sums + first);
        finish(sums, first, count, operands + 2, results[0]);
      });
    };
    if (b_.dtype == ir::DType::F32)
      all(static_cast<const float*>(operands[1]));
    else
      all(static_cast<const BFloat16*>(operands[1]));
  }
  size_t scratch_bytes() const override { return sums_at_ + round_up_64(extent_bytes(sums_)); }
  std::string describe() const override { return "row_product:own"; }

 private:
  // Of the result, so that threads write to lines of their own. Small, so that no thread waits long for another.
  // Beginnings depend on sizes alone.
  int64_t columns_a_piece() const {
    constexpr int64_t kBytes = 32768, kLine = 16;
    if (!by_columns_) return block_columns();
    return rounded_up(std::max<int64_t>(1, kBytes / (k_ * ir::item_size(b_.dtype))), kLine);
  }
  int64_t block_columns() const {
    return for_host([&](auto set) {
      int64_t vectors = 0;
      with_rows<kMostRows<set()>>(m_, [&](auto rows) { vectors = kBlockVectors<set(), rows()>; });
      return vectors * RowKernels<set()>::kLanes;
    });
  }

  template <class T>
  void multiply(const float* rows, const T* b, int64_t n, float* sums) const {
    for_host([&](auto set) {
      with_rows<kMostRows<set()>>(m_, [&](auto count) {
        if (by_columns_)
          RowKernels<set()>::template columns<count()>(rows, k_, b, stride_, k_, n, sums, n_);
        else
          add_rows<set(), count()>(rows, b, n, sums);
      });
    });
  }
  // Of some columns, while they are in the cache.
  void finish(float* sums, int64_t first, int64_t count, const void* const* operands, void* result) const {
    const auto part = [&](const Layout& l) { return Layout{l.dtype, {m_, count}, l.strides}; };
    const auto at = [&](const Layout& l) {
      return first * l.strides[1] * static_cast<int64_t>(ir::item_size(l.dtype));
    };
    const void* parts[kMostOperands];
    const void** next = parts;
    for (const PostOp& op : ops_)
      if (has_operand(op)) *next++ = static_cast<const char*>(*operands++) + at(op.operand);
    run_post_ops(ops_, part(sums_), sums + first, parts);
    strided_copy(part(sums_), sums + first, part(out_), static_cast<char*>(result) + at(out_));
  }

  // Blocks, then vectors, then single columns.
  template <InstructionSet set, int64_t M, class T>
  void add_rows(const float* rows, const T* b, int64_t n, float* sums) const {
    using Kernels = RowKernels<set>;
    constexpr int64_t kVectors = kBlockVectors<set, M>, kLanes = Kernels::kLanes;
    int64_t j = 0;
    for (; j + kVectors * kLanes <= n; j += kVectors * kLanes)
      Kernels::template block<M, kVectors>(rows, k_, b + j, stride_, k_, sums + j, n_);
    for (; j + kLanes <= n; j += kLanes) Kernels::template block<M, 1>(rows, k_, b + j, stride_, k_, sums + j, n_);
    for (; j < n; ++j)
      for (int64_t i = 0; i < M; ++i) {
        float sum = 0;
        for (int64_t r = 0; r < k_; ++r) sum += rows[i * k_ + r] * static_cast<float>(b[r * stride_ + j]);
        sums[i * n_ + j] = sum;
      }
  }

  Layout a_, b_, out_;
  int64_t m_, k_, n_;
  bool by_columns_;  // b's columns lie side by side in memory; else its rows do
  int64_t stride_;
  Layout rows_, sums_;
  std::vector<PostOp> ops_;
  size_t sums_at_;
};

}  // namespace

std::unique_ptr<LibraryCall> make_row_product(const Layout& a, const Layout& b, const Layout& out,
                                              std::span<const PostOp> post_ops) {
  if (out.shape.size() != 2 || (b.dtype != ir::DType::F32 && b.dtype != ir::DType::BF16)) return nullptr;
  const int64_t m = out.shape[0], n = out.shape[1], k = a.shape[1];
  const bool columns = b.strides[0] == 1 && b.strides[1] >= k, rows = b.strides[1] == 1 && b.strides[0] >= n;
  if (m > (columns ? most_rows() : kMostRowsOfBlocks) || n < 4 || n * k < 65536 || !(columns || rows)) return nullptr;
  if (std::ranges::count_if(post_ops, has_operand) > kMostOperands) return nullptr;
  return std::make_unique<RowProduct>(a, b, out, post_ops);
}

}  // namespace lazuli::lowering
