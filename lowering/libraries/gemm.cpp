#include "lowering/libraries/gemm.h"
#include <algorithm>
#include <type_traits>
#include "lowering/crew.h"
#include "lowering/libraries/clones.h"
#include "lowering/libraries/elements.h"
#include "lowering/libraries/post_ops.h"
#include "lowering/libraries/strided_copy.h"

namespace lazuli::lowering {
namespace {

// One thread's tile of the result, and the depth of the panels that it is summed from.
constexpr int64_t kTileRows = 96, kTileColumns = 128, kDepth = 256;
// The micro-kernel's part of the tile, held in registers: kRows x two vectors.
constexpr int64_t kRows = 12;

template <class C>
struct Panels {
  static constexpr int64_t kLanes = 64 / sizeof(C);
  static constexpr int64_t kColumns = 2 * kLanes;
  alignas(64) C a[kTileRows * kDepth];     // [row block][k][kRows]
  alignas(64) C b[kTileColumns * kDepth];  // [column block][k][kColumns]
  alignas(64) C sum[kTileRows * kTileColumns];
};

// Integers wrap around: so they are multiplied as unsigned ones, where that is defined.
template <class C>
using Wrapping = typename std::conditional_t<std::is_integral_v<C>, std::make_unsigned<C>, std::type_identity<C>>::type;

// sum += a * b for a whole tile of packed panels, `depth` deep. Spelled once for each target: GCC splits vector types
// for the function that they stand in.
#define LAZULI_MICRO_KERNEL(name, target)                                                              \
  template <class C>                                                                                   \
  target void name(Panels<C>* p, int64_t rows, int64_t columns, int64_t depth) {                       \
    typedef Wrapping<C> Lane;                                                                          \
    typedef Lane Vector __attribute__((vector_size(64)));                                              \
    for (int64_t j = 0; j < columns; j += Panels<C>::kColumns)                                         \
      for (int64_t i = 0; i < rows; i += kRows) {                                                      \
        const Lane* a = reinterpret_cast<const Lane*>(p->a + i * kDepth);                              \
        const Vector* b = reinterpret_cast<const Vector*>(p->b + j * kDepth);                          \
        Vector s[kRows][2];                                                                            \
        _Pragma("GCC unroll 12") for (int64_t r = 0; r < kRows; ++r) {                                 \
          const Vector* sum = reinterpret_cast<const Vector*>(p->sum + (i + r) * kTileColumns + j);    \
          s[r][0] = sum[0], s[r][1] = sum[1];                                                          \
        }                                                                                              \
        for (int64_t k = 0; k < depth; ++k, a += kRows, b += 2) {                                      \
          const Vector b0 = b[0], b1 = b[1];                                                           \
          _Pragma("GCC unroll 12") for (int64_t r = 0; r < kRows; ++r) {                               \
            s[r][0] += a[r] * b0;                                                                      \
            s[r][1] += a[r] * b1;                                                                      \
          }                                                                                            \
        }                                                                                              \
        _Pragma("GCC unroll 12") for (int64_t r = 0; r < kRows; ++r) {                                 \
          Vector* sum = reinterpret_cast<Vector*>(p->sum + (i + r) * kTileColumns + j);                \
          sum[0] = s[r][0], sum[1] = s[r][1];                                                          \
        }                                                                                              \
      }                                                                                                \
  }
LAZULI_MICRO_KERNEL(micro_kernel_baseline, )
LAZULI_MICRO_KERNEL(micro_kernel_avx2, LAZULI_TARGET_AVX2)
LAZULI_MICRO_KERNEL(micro_kernel_avx512, LAZULI_TARGET_AVX512)

template <class C>
void micro_kernel(Panels<C>* p, int64_t rows, int64_t columns, int64_t depth) {
  switch (host_features()) {
    case Features::Avx512: return micro_kernel_avx512(p, rows, columns, depth);
    case Features::Avx2: return micro_kernel_avx2(p, rows, columns, depth);
    case Features::Baseline: return micro_kernel_baseline(p, rows, columns, depth);
  }
}

// Packs `size` x `depth` elements into blocks of `block`, zero beyond the edge.
template <class T, class C>
void pack(const T* source, int64_t stride, int64_t depth_stride, int64_t size, int64_t depth, int64_t block, C* out) {
  for (int64_t first = 0; first < size; first += block) {
    C* panel = out + first * kDepth;
    const int64_t width = std::min(block, size - first);
    for (int64_t k = 0; k < depth; ++k, panel += block) {
      const T* s = source + first * stride + k * depth_stride;
      for (int64_t i = 0; i < width; ++i) panel[i] = static_cast<C>(s[i * stride]);
      for (int64_t i = width; i < block; ++i) panel[i] = C(0);
    }
  }
}

class Gemm final : public LibraryCall {
 public:
  Gemm(const Layout& a, const Layout& b, const Layout& out, std::span<const PostOp> post_ops)
      : a_(a), b_(b), out_(out), ops_(broadcast_post_ops(post_ops, out.shape)), threads_(crew_size()) {
    const size_t rank = out.shape.size();
    m_ = out.shape[rank - 2], n_ = out.shape[rank - 1], k_ = a.shape[rank - 1];
    batches_ = ir::product(std::span(out.shape.data(), rank - 2));
  }

  void run(const void* const* operands, void* const* results, void* scratch) override {
    with_element_type(out_.dtype, [&](auto t) {
      using T = decltype(t);
      if constexpr (!std::is_same_v<T, bool>)
        run_typed<T>(operands, static_cast<T*>(results[0]), static_cast<Panels<Compute<T>>*>(scratch));
    });
  }

  size_t scratch_bytes() const override {
    return with_element_type(out_.dtype, [&](auto t) { return sizeof(Panels<Accumulator<decltype(t)>>); }) * threads_;
  }
  std::string describe() const override { return "gemm:own:" + std::string(ir::name(out_.dtype)); }

 private:
  template <class T>
  using Accumulator = std::conditional_t<std::is_same_v<T, bool>, uint8_t, Compute<T>>;

  int64_t batch_offset(const ir::Dims& strides, int64_t batch) const {
    int64_t at = 0;
    for (size_t d = out_.shape.size() - 2; d-- > 0; batch /= out_.shape[d]) at += batch % out_.shape[d] * strides[d];
    return at;
  }

  template <class T>
  void run_typed(const void* const* operands, T* out, Panels<Compute<T>>* scratch) const {
    const int64_t down = (m_ + kTileRows - 1) / kTileRows, across = (n_ + kTileColumns - 1) / kTileColumns;
    const int64_t tiles = batches_ * down * across;
    const int threads = batches_ * m_ * n_ * (k_ + 1) > 32768 ? threads_ : 1;
    share_out(tiles, threads, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t tile = begin; tile < end; ++tile) {
        const int64_t j = tile % across * kTileColumns, i = tile / across % down * kTileRows;
        run_tile<T>(operands, out, scratch + worker, tile / across / down, i, j);
      }
    });
  }

  template <class T>
  void run_tile(const void* const* operands, T* out, Panels<Compute<T>>* p, int64_t batch, int64_t i, int64_t j) const {
    using C = Compute<T>;
    const size_t row = out_.shape.size() - 2, column = row + 1;
    const T* a = static_cast<const T*>(operands[0]) + batch_offset(a_.strides, batch) + i * a_.strides[row];
    const T* b = static_cast<const T*>(operands[1]) + batch_offset(b_.strides, batch) + j * b_.strides[column];
    const int64_t rows = std::min(kTileRows, m_ - i), columns = std::min(kTileColumns, n_ - j);
    std::fill(p->sum, p->sum + kTileRows * kTileColumns, C(0));
    for (int64_t k = 0; k < k_; k += kDepth) {
      const int64_t depth = std::min(kDepth, k_ - k);
      pack(a + k * a_.strides[column], a_.strides[row], a_.strides[column], rows, depth, kRows, p->a);
      pack(b + k * b_.strides[row], b_.strides[column], b_.strides[row], columns, depth, Panels<C>::kColumns, p->b);
      micro_kernel(p, rows, columns, depth);
    }
    finish<T>(operands + 2, p->sum, rows, columns, batch, i, j);
    T* to = out + batch_offset(out_.strides, batch) + i * out_.strides[row] + j * out_.strides[column];
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        to[r * out_.strides[row] + c * out_.strides[column]] = static_cast<T>(p->sum[r * kTileColumns + c]);
  }

  // The post-ops, on the tile of sums.
  template <class T>
  void finish(const void* const* operands, Compute<T>* sum, int64_t rows, int64_t columns, int64_t batch, int64_t i,
              int64_t j) const {
    using C = Compute<T>;
    const size_t row = out_.shape.size() - 2, column = row + 1;
    size_t at = 0;
    for (const PostOp& op : ops_) {
      const ir::Dims& s = op.operand.strides;
      const void* operand = has_operand(op) ? operands[at++] : nullptr;
      const int64_t base = operand ? batch_offset(s, batch) + i * s[row] + j * s[column] : ir::Size(0);
      const ir::DType dtype = operand ? op.operand.dtype : out_.dtype;
      with_element_type(dtype, [&](auto e) {
        const auto* y = static_cast<const decltype(e)*>(operand);
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < columns; ++c) {
            C& x = sum[r * kTileColumns + c];
            x = apply_post_op(op, x, y ? static_cast<C>(y[base + r * s[row] + c * s[column]]) : C(0));
          }
      });
    }
  }

  Layout a_, b_, out_;
  std::vector<PostOp> ops_;
  int threads_;
  int64_t m_, n_, k_, batches_;
};

}  // namespace

std::unique_ptr<LibraryCall> make_gemm(const Layout& a, const Layout& b, const Layout& out,
                                       std::span<const PostOp> post_ops) {
  if (a.dtype != out.dtype || b.dtype != out.dtype || out.dtype == ir::DType::Bool || !ir::is_native(out.dtype))
    throw TypeError("no matrix product of " + std::string(ir::name(a.dtype)) + " and " +
                    std::string(ir::name(b.dtype)) + " to " + std::string(ir::name(out.dtype)));
  return std::make_unique<Gemm>(a, b, out, post_ops);
}

}  // namespace lazuli::lowering
