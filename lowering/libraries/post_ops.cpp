#include "lowering/libraries/post_ops.h"
#include <algorithm>
#include <functional>
#include <numeric>
#include "lowering/libraries/post_op_block.h"
#include "lowering/libraries/strided_copy.h"
#include "lowering/threads/crew.h"

namespace lazuli::lowering {

Layout broadcast_to(const Layout& operand, const ir::Dims& shape) {
  Layout out{operand.dtype, shape, ir::Dims(shape.size(), 0)};
  const size_t missing = shape.size() - operand.shape.size();
  if (operand.shape.size() > shape.size()) throw TypeError("a post-op's operand has more dimensions than the result");
  for (size_t d = missing; d < shape.size(); ++d) {
    const ir::Size size = operand.shape[d - missing];
    if (size != 1 && size != shape[d]) throw TypeError("a post-op's operand does not broadcast to the result");
    out.strides[d] = size == 1 ? ir::Size(0) : operand.strides[d - missing];
  }
  return out;
}

bool packed_like(const Layout& operand, const Layout& like) {
  std::vector<size_t> inner_first(operand.shape.size());
  std::iota(inner_first.rbegin(), inner_first.rend(), size_t{0});
  std::ranges::stable_sort(inner_first, {}, [&](size_t d) { return like.strides[d]; });
  int64_t expected = 1;
  for (size_t d : inner_first) {
    if (operand.shape[d] == 1 || operand.strides[d] == 0) continue;
    if (operand.strides[d] != expected) return false;
    expected *= operand.shape[d];
  }
  return true;
}

bool is_per_channel(const Layout& operand, const ir::Dims& shape) {
  const Layout b = broadcast_to(operand, shape);
  for (size_t d = 0; d < b.shape.size(); ++d)
    if (b.shape[d] != 1 && (d == 1 ? b.strides[d] != 1 : b.strides[d] != 0)) return false;
  return true;
}

std::vector<PostOp> broadcast_post_ops(std::span<const PostOp> ops, const ir::Dims& shape) {
  std::vector<PostOp> out(ops.begin(), ops.end());
  for (PostOp& op : out)
    if (has_operand(op)) op.operand = broadcast_to(op.operand, shape);
  return out;
}

namespace {

// Walks over a result block by block: a block goes through all ops while it is in the first cache.
template <class T>
class Walk {
 public:
  Walk(std::span<const PostOp> ops, const Layout& result, void* data, const void* const* operands)
      : ops_(ops), result_(result), data_(static_cast<T*>(data)), operands_(operands) {
    const size_t rank = result.shape.size();
    columns_ = rank ? int64_t{result.shape[rank - 1]} : 1;
    rows_ = rank > 1 ? int64_t{result.shape[rank - 2]} : 1;
    rows_a_block_ = std::clamp<int64_t>(kBlock / std::max<int64_t>(columns_, 1), 1, std::max<int64_t>(rows_, 1));
    down_ = (rows_ + rows_a_block_ - 1) / rows_a_block_;
    across_ = (columns_ + kBlock - 1) / kBlock;
    matrices_ = ir::product(std::span(result.shape.data(), rank > 2 ? rank - 2 : 0));
  }

  void run() const {
    share_out(matrices_ * down_ * across_, matrices_ * rows_ * columns_ > 64 * 1024,
              [&](int64_t begin, int64_t end, int) {
                for (int64_t i = begin; i < end; ++i) {
                  const int64_t row = i / across_ % down_ * rows_a_block_, column = i % across_ * kBlock;
                  visit(i / across_ / down_, row, std::min(rows_a_block_, rows_ - row), column,
                        std::min(kBlock, columns_ - column));
                }
              });
  }

 private:
  using C = Compute<T>;
  static constexpr int64_t kBlock = 4096;  // elements

  // How far apart elements are.
  struct Steps {
    Steps(const ir::Dims& strides) {
      const size_t rank = strides.size();
      along = rank ? int64_t{strides[rank - 1]} : 0;
      down = rank > 1 ? int64_t{strides[rank - 2]} : 0;
    }
    int64_t down, along;
  };
  int64_t offset(const ir::Dims& strides, int64_t matrix, int64_t row, int64_t column) const {
    const Steps step(strides);
    int64_t at = row * step.down + column * step.along;
    for (size_t d = strides.size() < 2 ? 0 : strides.size() - 2; d-- > 0; matrix /= result_.shape[d])
      at += matrix % result_.shape[d] * strides[d];
    return at;
  }

  void visit(int64_t matrix, int64_t row, int64_t rows, int64_t column, int64_t columns) const {
    const Steps step(result_.strides);
    T* out = data_ + offset(result_.strides, matrix, row, column);
    PostOpBlock<C> block{nullptr, step.down, rows, columns};
    C copy[kBlock];
    const bool in_place = std::is_same_v<T, C> && step.along == 1;
    if (in_place)
      block.data = reinterpret_cast<C*>(out);
    else {
      block.data = copy, block.stride = columns;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c)
          copy[r * columns + c] = static_cast<C>(out[r * step.down + c * step.along]);
    }
    apply(block, matrix, row, column);
    if (in_place) return;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) out[r * step.down + c * step.along] = static_cast<T>(copy[r * columns + c]);
  }

  void apply(const PostOpBlock<C>& block, int64_t matrix, int64_t row, int64_t column) const {
    const void* const* next = operands_;
    for (const PostOp& op : ops_) {
      if (!has_operand(op)) {
        run_post_op(op, block, static_cast<const C*>(nullptr), 0, 0);
        continue;
      }
      const Steps step(op.operand.strides);
      const int64_t first = offset(op.operand.strides, matrix, row, column);
      const void* operand = *next++;
      with_floating_type(op.operand.dtype, [&](auto e) {
        run_post_op(op, block, static_cast<const decltype(e)*>(operand) + first, step.down, step.along);
      });
    }
  }

  std::span<const PostOp> ops_;
  const Layout& result_;
  T* data_;
  const void* const* operands_;
  int64_t rows_, columns_, matrices_, rows_a_block_, down_, across_;  // and how many blocks a matrix has
};

// Numbers side by side, in whatever order, are one row to ops that read nothing else.
Layout as_walked(std::span<const PostOp> ops, const Layout& result) {
  if (std::ranges::any_of(ops, has_operand) || !packed_like(result, result)) return result;
  return dense_layout(result.dtype, {ir::product(result.shape)});
}

// With the dimensions in the order of the result's memory: blocks of a channels-last image are whole points.
void turn_to_memory(Layout& result, std::vector<PostOp>& ops) {
  std::vector<size_t> order(result.shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](size_t d) { return int64_t{result.strides[d]}; });
  const auto turn = [&](Layout& l) {
    const Layout before = l;
    for (size_t d = 0; d < order.size(); ++d)
      l.shape[d] = before.shape[order[d]], l.strides[d] = before.strides[order[d]];
  };
  turn(result);
  for (PostOp& op : ops)
    if (has_operand(op)) turn(op.operand);
}

}  // namespace

void run_post_ops(std::span<const PostOp> ops, const Layout& result, void* data, const void* const* operands) {
  if (ops.empty()) return;
  Layout walked = as_walked(ops, result);
  std::vector<PostOp> turned;
  if (!walked.strides.empty() && walked.strides.back() != 1) {
    turned.assign(ops.begin(), ops.end());
    turn_to_memory(walked, turned);
    ops = turned;
  }
  with_floating_type(walked.dtype, [&](auto e) { Walk<decltype(e)>(ops, walked, data, operands).run(); });
}

}  // namespace lazuli::lowering
