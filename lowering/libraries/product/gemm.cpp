#include "lowering/libraries/product/gemm.h"
#include <algorithm>
#include <cstring>
#include <type_traits>
#include "lowering/instruction_sets/instruction_sets.h"
#include "lowering/libraries/elements.h"
#include "lowering/libraries/post_op_block.h"
#include "lowering/libraries/product/pack.h"
#include "lowering/threads/crew.h"

namespace lazuli::lowering {
namespace {

// As in "Anatomy of High-Performance Matrix Multiplication" (Goto, van de Geijn, 2008): a micro-kernel holds a small
// block of the result in registers and walks along k over a panel of b that stays in the first cache, and blocks of a
// in the second. Each tile of the result is one thread's.
constexpr int64_t kDepth = 256;                            // of panels along k
constexpr int64_t kMostRows = 240, kMostColumns = 512;     // of a tile
constexpr int64_t kFewestRows = 48, kFewestColumns = 128;  // down to which tiles are cut, so that each thread has some
constexpr int64_t kFewColumns = 256;                       // of b, for which packing a is not worth it
// Products with fewer multiplications are not worth a second thread.
constexpr int64_t kWorthSharing = 1 << 16;

// Integers wrap around: so they are multiplied as unsigned ones, where that is defined.
template <class C>
using Wrapping = typename std::conditional_t<std::is_integral_v<C>, std::make_unsigned<C>, std::type_identity<C>>::type;

// A block of rows of a, with strides.
template <class C>
struct Rows {
  const C* data;
  int64_t row, depth;
};

// A block of sums, zero before the first panel.
template <class C>
struct Block {
  C* data;
  int64_t stride;
  bool is_zero;
};

// sum += a * b, `depth` deep; b is packed. Spelled once for each target: GCC splits vector types for the function that
// they stand in.
template <InstructionSet>
struct MicroKernel;
#define LAZULI_MICRO_KERNEL(set, target)                                                                     \
  template <>                                                                                                \
  struct MicroKernel<set> {                                                                                  \
    template <class C>                                                                                       \
    target static void run(const Rows<C>& rows, const C* columns, int64_t depth, const Block<C>& sum) {      \
      typedef Wrapping<C> Lane;                                                                              \
      typedef Lane Vector __attribute__((vector_size(kRegisterBlock<set>.vector_bytes)));                    \
      typedef Lane Loose __attribute__((vector_size(kRegisterBlock<set>.vector_bytes), aligned(sizeof(C)))); \
      constexpr int64_t kRows = kRegisterBlock<set>.rows;                                                    \
      const int64_t row = rows.row;                                                                          \
      const Lane* a[kRows / 3];                                                                              \
      for (int64_t r = 0; r < kRows / 3; ++r) a[r] = reinterpret_cast<const Lane*>(rows.data) + 3 * r * row; \
      const Vector* b = reinterpret_cast<const Vector*>(columns);                                            \
      Vector s[kRows][2];                                                                                    \
      _Pragma("GCC unroll 12") for (int64_t r = 0; r < kRows; ++r) {                                         \
        s[r][0] = s[r][1] = Vector{};                                                                        \
        __builtin_prefetch(sum.data + r * sum.stride, 1);                                                    \
      }                                                                                                      \
      _Pragma("GCC unroll 4") for (int64_t k = 0; k < depth; ++k, b += 2) {                                  \
        const Vector b0 = b[0], b1 = b[1];                                                                   \
        _Pragma("GCC unroll 12") for (int64_t r = 0; r < kRows; ++r) {                                       \
          const Lane x = a[r / 3][r % 3 * row];                                                              \
          s[r][0] += x * b0;                                                                                 \
          s[r][1] += x * b1;                                                                                 \
        }                                                                                                    \
        _Pragma("GCC unroll 4") for (int64_t r = 0; r < kRows / 3; ++r) a[r] += rows.depth;                  \
      }                                                                                                      \
      _Pragma("GCC unroll 12") for (int64_t r = 0; r < kRows; ++r) {                                         \
        Loose* to = reinterpret_cast<Loose*>(sum.data + r * sum.stride);                                     \
        if (!sum.is_zero) s[r][0] += to[0], s[r][1] += to[1];                                                \
        to[0] = s[r][0], to[1] = s[r][1];                                                                    \
      }                                                                                                      \
    }                                                                                                        \
  };
#define INSTRUCTION_SET(name, target, ...) LAZULI_MICRO_KERNEL(InstructionSet::name, target)
#include "lowering/instruction_sets/all.def"

template <class C>
void micro_kernel(const Rows<C>& a, const C* b, int64_t depth, const Block<C>& sum) {
  for_host([&](auto set) { MicroKernel<set()>::run(a, b, depth, sum); });
}

class Gemm final : public LibraryCall {
 public:
  Gemm(const Layout& a, const Layout& b, const Layout& out, std::span<const PostOp> post_ops)
      : a_(a), b_(b), out_(out), ops_(broadcast_post_ops(post_ops, out.shape)), threads_(crew_size()) {
    const size_t rank = out.shape.size();
    m_ = out.shape[rank - 2], n_ = out.shape[rank - 1], k_ = a.shape[rank - 1];
    batches_ = ir::product(std::span(out.shape.data(), rank - 2));
    cut();
  }

  void run(const void* const* operands, void* const* results, void* scratch) override {
    with_element_type(out_.dtype, [&](auto t) {
      using T = decltype(t);
      if constexpr (!std::is_same_v<T, bool>) run_typed<T>(operands, static_cast<T*>(results[0]), scratch);
    });
  }

  size_t scratch_bytes() const override { return threads_ * scratch_of_one(); }
  std::string describe() const override { return "gemm:own:" + std::string(ir::name(out_.dtype)); }

 private:
  int64_t tiles() const { return batches_ * down_ * across_; }

  // Chooses the tiles: as large as caches allow, but so many that threads have about equally much.
  void cut() {
    const int64_t block = with_element_type(out_.dtype, [&](auto t) { return columns_of<decltype(t)>(); });
    int64_t rows = kMostRows, columns = kMostColumns;
    const auto apply = [&] {
      down_ = (m_ + rows - 1) / rows, across_ = (n_ + columns - 1) / columns;
      rows_ = rounded_up((m_ + down_ - 1) / down_, register_block().rows);
      columns_ = rounded_up((n_ + across_ - 1) / across_, block);
      down_ = (m_ + rows_ - 1) / rows_, across_ = (n_ + columns_ - 1) / columns_;
    };
    apply();
    const auto is_even = [&] {
      const int64_t turns = (tiles() + threads_ - 1) / threads_;
      return turns * threads_ * 8 <= tiles() * 9;
    };
    while (!is_even() && (rows_ > kFewestRows || columns_ > kFewestColumns)) {
      columns_ > 2 * rows_&& columns_ > kFewestColumns ? columns = std::max(columns_ / 2, block) : rows = rows_ / 2;
      rows = std::max(rows, register_block().rows);
      const int64_t before = tiles();
      apply();
      if (tiles() == before) break;
    }
  }

  template <class T>
  using Sum = std::conditional_t<std::is_same_v<T, bool>, uint8_t, Compute<T>>;
  template <class T>
  static int64_t columns_of() {
    return register_block().columns<Sum<T>>();
  }

  // Packed panels of both operands, and sums where the result cannot hold them.
  size_t scratch_of_one() const {
    const int64_t bytes =
        with_element_type(out_.dtype, [](auto t) { return static_cast<int64_t>(sizeof(Sum<decltype(t)>)); });
    return rounded_up((rows_ * kDepth + columns_ * kDepth + rows_ * columns_) * bytes + kPackPadding, 64) +
           register_block().bytes();
  }

  int64_t batch_offset(const ir::Dims& strides, int64_t batch) const {
    int64_t at = 0;
    for (size_t d = out_.shape.size() - 2; d-- > 0; batch /= out_.shape[d]) at += batch % out_.shape[d] * strides[d];
    return at;
  }

  template <class T>
  void run_typed(const void* const* operands, T* out, void* scratch) const {
    const bool worth = m_ * n_ > kWorthSharing / std::max<int64_t>(1, batches_ * k_);
    const bool in_place = std::is_same_v<T, Compute<T>> && out_.strides.back() == 1;
    share_out(tiles(), worth ? threads_ : 1, [&](int64_t begin, int64_t end, int worker) {
      auto* mine = reinterpret_cast<Compute<T>*>(static_cast<char*>(scratch) + worker * scratch_of_one());
      // Tiles one below the other share panels of b.
      for (int64_t tile = begin, next; tile < end; tile = next) {
        next = in_place ? std::min(end, (tile / down_ + 1) * down_) : tile + 1;
        const int64_t i = tile % down_ * rows_, j = tile / down_ % across_ * columns_;
        run_tiles<T>(operands, out, mine, tile / down_ / across_, i, std::min(m_, i + (next - tile) * rows_), j,
                     in_place);
      }
    });
  }

  // Rows i to `last` of a column of tiles: of several only in place.
  template <class T>
  void run_tiles(const void* const* operands, T* out, Compute<T>* scratch, int64_t batch, int64_t i, int64_t last,
                 int64_t j, bool in_place) const {
    using C = Compute<T>;
    const int64_t block_rows = register_block().rows, block_columns = columns_of<T>();
    const size_t row = out_.shape.size() - 2, column = row + 1;
    const T* a = static_cast<const T*>(operands[0]) + batch_offset(a_.strides, batch);
    const T* b = static_cast<const T*>(operands[1]) + batch_offset(b_.strides, batch) + j * b_.strides[column];
    T* to = out + batch_offset(out_.strides, batch) + i * out_.strides[row] + j * out_.strides[column];
    const int64_t columns = std::min(columns_, n_ - j);

    C *packed_b = scratch, *packed_a = packed_b + columns_ * kDepth;
    C* sums = packed_a + rows_ * kDepth + kPackPadding / static_cast<int64_t>(sizeof(C));
    C* edge = reinterpret_cast<C*>(reinterpret_cast<char*>(scratch) + scratch_of_one() - register_block().bytes());
    int64_t stride = columns_;
    if constexpr (std::is_same_v<T, C>)
      if (in_place) sums = to, stride = out_.strides[row];

    const int64_t finished = 4 * block_columns;  // at once, while they are in the first cache
    for (int64_t k = 0; k < k_; k += kDepth) {
      const int64_t depth = std::min(kDepth, k_ - k);
      pack(Matrix<T>{b + k * b_.strides[row], b_.strides[column], b_.strides[row]}, columns, depth, block_columns,
           packed_b);
      for (int64_t first = i; first < last; first += rows_) {
        const int64_t rows = std::min(rows_, last - first);
        const Matrix<T> left{a + first * a_.strides[row] + k * a_.strides[column], a_.strides[row], a_.strides[column]};
        // Rows that lie along k and meet few columns are read where they are, but for those at the edge.
        const bool packs = !std::is_same_v<T, C> || left.depth != 1 || columns > kFewColumns;
        const int64_t unpacked = packs ? 0 : rows / block_rows * block_rows;
        pack(Matrix<T>{left.data + unpacked * left.stride, left.stride, left.depth}, rows - unpacked, depth, block_rows,
             packed_a + unpacked * depth);
        C* tile = sums + (first - i) * stride;
        for (int64_t c = 0; c < columns; c += block_columns) {
          const int64_t wide = std::min(block_columns, columns - c);
          for (int64_t r = 0; r < rows; r += block_rows) {
            const int64_t high = std::min(block_rows, rows - r);
            Rows<C> block{packed_a + r * depth, 1, block_rows};
            if constexpr (std::is_same_v<T, C>)
              if (r < unpacked) block = {left.data + r * left.stride, left.stride, 1};
            run_block(block, packed_b + c * depth, depth, {tile + r * stride + c, stride, k == 0},
                      !in_place || (high == block_rows && wide == block_columns) ? nullptr : edge, high, wide);
          }
          const int64_t done = c + wide;
          if constexpr (std::is_floating_point_v<C>)
            if (k + depth == k_ && !ops_.empty() && (done == columns || done % finished == 0)) {
              const int64_t at = (done - 1) / finished * finished;
              finish<T>(operands + 2, tile + at, stride, rows, done - at, batch, first, j + at);
            }
        }
      }
    }
    if (in_place) return;
    for (int64_t r = 0; r < last - i; ++r)
      for (int64_t c = 0; c < columns; ++c)
        to[r * out_.strides[row] + c * out_.strides[column]] = static_cast<T>(sums[r * stride + c]);
  }

  // Of a block at the edge, only high x wide elements have room: it is computed elsewhere.
  template <class C>
  static void run_block(const Rows<C>& a, const C* b, int64_t depth, const Block<C>& sum, C* elsewhere, int64_t high,
                        int64_t wide) {
    if (!elsewhere) return micro_kernel(a, b, depth, sum);
    const int64_t columns = register_block().columns<C>();
    micro_kernel(a, b, depth, Block<C>{elsewhere, columns, true});
    for (int64_t y = 0; y < high; ++y)
      for (int64_t x = 0; x < wide; ++x) {
        C& to = sum.data[y * sum.stride + x];
        const auto part = static_cast<Wrapping<C>>(elsewhere[y * columns + x]);
        to = static_cast<C>(sum.is_zero ? part : part + static_cast<Wrapping<C>>(to));
      }
  }

  // The post-ops, on a part of the sums.
  template <class T>
  void finish(const void* const* operands, Compute<T>* sum, int64_t stride, int64_t rows, int64_t columns,
              int64_t batch, int64_t i, int64_t j) const {
    const size_t row = out_.shape.size() - 2, column = row + 1;
    for (const PostOp& op : ops_) {
      const ir::Dims& s = op.operand.strides;
      const void* operand = has_operand(op) ? *operands++ : nullptr;
      const int64_t base = operand ? batch_offset(s, batch) + i * s[row] + j * s[column] : ir::Size(0);
      const int64_t down = operand ? int64_t{s[row]} : 0, along = operand ? int64_t{s[column]} : 0;
      with_floating_type(operand ? op.operand.dtype : out_.dtype, [&](auto e) {
        const auto* y = static_cast<const decltype(e)*>(operand);
        run_post_op(op, PostOpBlock<Compute<T>>{sum, stride, rows, columns}, y ? y + base : y, down, along);
      });
    }
  }

  Layout a_, b_, out_;
  std::vector<PostOp> ops_;
  int threads_;
  int64_t m_, n_, k_, batches_;
  int64_t rows_ = 0, columns_ = 0, down_ = 0, across_ = 0;  // of a tile; how many tiles
};

}  // namespace

std::unique_ptr<LibraryCall> make_gemm(const Layout& a, const Layout& b, const Layout& out,
                                       std::span<const PostOp> post_ops) {
  if (a.dtype != out.dtype || b.dtype != out.dtype || out.dtype == ir::DType::Bool || !ir::is_native(out.dtype))
    throw TypeError("no matrix product of " + std::string(ir::name(a.dtype)) + " and " +
                    std::string(ir::name(b.dtype)) + " to " + std::string(ir::name(out.dtype)));
  LAZULI_CHECK(ir::product(out.shape) != 0 && a.shape.back() != 0, "a product of nothing is no product");
  LAZULI_CHECK(post_ops.empty() || ir::is_floating(out.dtype), "post-ops are of floating types");
  return std::make_unique<Gemm>(a, b, out, post_ops);
}

}  // namespace lazuli::lowering
