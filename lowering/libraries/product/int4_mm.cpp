#include "lowering/libraries/product/int4_mm.h"
#include <algorithm>
#include <type_traits>
#include "ir/error.h"
#include "lowering/libraries/elements.h"
#include "lowering/libraries/product/int4_kernels.h"
#include "lowering/libraries/staged_call.h"
#include "lowering/libraries/strided_copy.h"
#include "lowering/threads/crew.h"
#include "lowering/threads/little_work.h"

namespace lazuli::lowering {
namespace {

constexpr int64_t kRowsAtOnce = 4;

// Rows of the matrix that lie together in bytes: those of low halves and of high ones are `apart` rows apart, and those
// of two bytes side by side are `step` apart.
struct RowBlock {
  int64_t first, bytes, apart, step;
  int64_t row(int64_t half, int64_t byte) const { return first + half * apart + byte * step; }
};

class Int4Product final : public LibraryCall {
 public:
  Int4Product(const Layout& x, const Layout& scales, const Layout& out, const Int4Params& params)
      : x_(x),
        out_(out),
        scale_type_(scales.dtype),
        m_(out.shape[0]),
        n_(out.shape[1]),
        k_(x.shape[1]),
        group_(params.group),
        groups_(k_ / params.group),
        params_(params),
        rows_(dense_layout(ir::DType::F32, x.shape)),
        sums_(dense_layout(ir::DType::F32, out.shape)) {
    totals_at_ = round_up_64(extent_bytes(rows_));
    sums_at_ = totals_at_ + round_up_64(m_ * groups_ * sizeof(float));
    factors_at_ = sums_at_ + round_up_64(extent_bytes(sums_));
  }

  void run(const void* const* operands, void* const* results, void* scratch) override {
    auto* at = static_cast<char*>(scratch);
    auto* rows = reinterpret_cast<float*>(at);
    auto* totals = reinterpret_cast<float*>(at + totals_at_);
    auto* sums = reinterpret_cast<float*>(at + sums_at_);
    strided_copy(x_, operands[0], rows_, rows);
    for (int64_t i = 0; i < m_ * groups_; ++i) {
      float total = 0;
      for (int64_t l = 0; l < group_; ++l) total += rows[i * group_ + l];
      totals[i] = total;
    }
    const auto* bytes = static_cast<const uint8_t*>(operands[1]);
    const int64_t blocks = (n_ + params_.block - 1) / params_.block;
    share_out(blocks, !is_little(m_ * n_ * k_), [&](int64_t begin, int64_t end, int worker) {
      auto* factors = reinterpret_cast<float*>(at + factors_at_ + worker * factor_bytes());
      for (int64_t b = begin; b < end; ++b)
        with_floating_type(scale_type_, [&](auto t) {
          multiply(block(b), bytes, static_cast<const decltype(t)*>(operands[2]), {rows, totals, factors, sums});
        });
    });
    strided_copy(sums_, sums, out_, results[0]);
  }
  size_t scratch_bytes() const override { return factors_at_ + crew_size_ * factor_bytes(); }
  std::string describe() const override { return "int4_mm:own"; }

 private:
  struct Places {
    float *rows, *totals, *factors, *sums;
  };
  static constexpr int64_t kMostBytes = 32;  // of a strip, on any processor
  size_t factor_bytes() const { return round_up_64(groups_ * 4 * kMostBytes * sizeof(float)); }

  RowBlock block(int64_t number) const {
    const int64_t first = number * params_.block, rows = std::min(params_.block, n_ - first);
    if (rows == params_.block && !params_.paired) return {first, rows / 2, rows / 2, 1};
    return {first, rows / 2, 1, 2};
  }

  template <class S>
  void multiply(const RowBlock& block, const uint8_t* bytes, const S* scales, const Places& at) const {
    bytes += block.first * k_ / 2;
    for_host([&](auto set) {
      constexpr int64_t kLanes = Int4Kernel<set()>::kLanes;
      int64_t byte = 0;
      const auto walk = [&](auto vectors) {
        for (; byte + vectors() * kLanes <= block.bytes; byte += vectors() * kLanes)
          strip<set(), vectors()>(block, byte, bytes, scales, at);
      };
      walk(std::integral_constant<int64_t, kInt4Vectors<set(), 1>>());
      walk(std::integral_constant<int64_t, 1>());
      for (; byte < block.bytes; ++byte) one_byte(block, byte, bytes, scales, at);
    });
  }

  template <InstructionSet set, int64_t V, class S>
  void strip(const RowBlock& block, int64_t byte, const uint8_t* bytes, const S* scales, const Places& at) const {
    constexpr int64_t kBytes = V * Int4Kernel<set>::kLanes;
    static_assert(kBytes <= kMostBytes);
    for (int64_t i = 0; i < m_; i += kRowsAtOnce) {
      const int64_t m = std::min(kRowsAtOnce, m_ - i);
      if (m == 1) return rows<set, 1, V>(block, byte, bytes, scales, at, i);
      if (m == 2) return rows<set, 2, V>(block, byte, bytes, scales, at, i);
      if (m == 3) return rows<set, 3, V>(block, byte, bytes, scales, at, i);
      rows<set, 4, V>(block, byte, bytes, scales, at, i);
    }
  }

  template <InstructionSet set, int64_t M, int64_t V, class S>
  void rows(const RowBlock& block, int64_t byte, const uint8_t* bytes, const S* scales, const Places& at,
            int64_t first) const {
    constexpr int64_t kVectors = std::min(V, kInt4Vectors<set, M>), kBytes = kVectors * Int4Kernel<set>::kLanes;
    float sums[M][2][kBytes];
    for (int64_t end = byte + V * Int4Kernel<set>::kLanes; byte < end; byte += kBytes) {
      gather<kBytes>(block, byte, scales, at.factors);
      Int4Kernel<set>::template run<M, kVectors>(at.rows + first * k_, k_, at.totals + first * groups_, groups_,
                                                 {bytes + byte, block.bytes, k_, group_, at.factors}, &sums[0][0][0]);
      for (int64_t i = 0; i < M; ++i)
        for (int64_t half = 0; half < 2; ++half)
          for (int64_t c = 0; c < kBytes; ++c) at.sums[(first + i) * n_ + block.row(half, byte + c)] = sums[i][half][c];
    }
  }

  // The scales and zeros of some bytes' rows, as Int4Strip has them.
  template <int64_t kBytes, class S>
  void gather(const RowBlock& block, int64_t byte, const S* scales, float* to) const {
    for (int64_t g = 0; g < groups_; ++g)
      for (int64_t half = 0; half < 2; ++half, to += 2 * kBytes) {
        const S* from = scales + (g * n_ + block.row(half, byte)) * 2;
        if (block.step == 1)
          separate<kBytes, 1>(from, to);
        else
          separate<kBytes, 2>(from, to);
      }
  }
  template <int64_t kBytes, int64_t kStep, class S>
  static void separate(const S* from, float* to) {
    run_for_host<Separate<kBytes, kStep>, const S*, float*>(from, to);
  }
  template <int64_t kBytes, int64_t kStep>
  struct Separate {
    template <class S>
    static LAZULI_INLINE void run(const S* from, float* to) {
#pragma omp simd
      for (int64_t c = 0; c < kBytes; ++c) {
        to[c] = static_cast<float>(from[2 * kStep * c]);
        to[kBytes + c] = static_cast<float>(from[2 * kStep * c + 1]);
      }
    }
  };

  // What is less than a vector.
  template <class S>
  void one_byte(const RowBlock& block, int64_t byte, const uint8_t* bytes, const S* scales, const Places& at) const {
    for (int64_t i = 0; i < m_; ++i)
      for (int64_t half = 0; half < 2; ++half) {
        const int64_t row = block.row(half, byte);
        float sum = 0;
        for (int64_t g = 0; g < groups_; ++g) {
          const S* scale = scales + (g * n_ + row) * 2;
          for (int64_t l = g * group_; l < (g + 1) * group_; ++l) {
            const auto q = static_cast<float>((bytes[l * block.bytes + byte] >> 4 * half & 15) - 8);
            sum += at.rows[i * k_ + l] * (q * static_cast<float>(scale[0]) + static_cast<float>(scale[1]));
          }
        }
        at.sums[i * n_ + row] = sum;
      }
  }

  Layout x_, out_;
  ir::DType scale_type_;
  int64_t m_, n_, k_, group_, groups_;
  Int4Params params_;
  Layout rows_, sums_;
  size_t totals_at_, sums_at_, factors_at_;
  const int crew_size_ = crew_size();
};

}  // namespace

std::unique_ptr<LibraryCall> make_int4_mm(const Layout& x, const Layout& weights, const Layout& scales,
                                          const Layout& out, const Int4Params& params) {
  if (ir::product(out.shape) == 0 || x.shape[1] == 0) return make_zero_call(out, {}, 3);
  if (!is_dense(weights) || !is_dense(scales)) throw TypeError("int4_mm: weights and scales lie densely");
  return std::make_unique<Int4Product>(x, scales, out, params);
}

}  // namespace lazuli::lowering
