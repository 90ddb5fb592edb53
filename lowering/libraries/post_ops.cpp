#include "lowering/libraries/post_ops.h"
#include <algorithm>
#include <numeric>
#include "lowering/threads/crew.h"

namespace lazuli::lowering {
namespace {

// Elements that go through all ops together.
constexpr int64_t kChunk = 128;

// Reads element `at` of an operand of any floating type as C.
template <class C>
C load(ir::DType dtype, const void* data, int64_t at) {
  return with_element_type(dtype, [&](auto e) { return static_cast<C>(static_cast<const decltype(e)*>(data)[at]); });
}

}  // namespace

Layout broadcast_to(const Layout& operand, const ir::Dims& shape) {
  Layout out{operand.dtype, shape, ir::Dims(shape.size(), 0)};
  const size_t missing = shape.size() - operand.shape.size();
  if (operand.shape.size() > shape.size()) throw TypeError("a post-op's operand has more dimensions than the result");
  for (size_t d = missing; d < shape.size(); ++d) {
    const int64_t size = operand.shape[d - missing];
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

std::vector<PostOp> broadcast_post_ops(std::span<const PostOp> ops, const ir::Dims& shape) {
  std::vector<PostOp> out(ops.begin(), ops.end());
  for (PostOp& op : out)
    if (has_operand(op)) op.operand = broadcast_to(op.operand, shape);
  return out;
}

namespace {

// A relu alone of numbers that lie side by side, in whatever order.
bool run_relu(std::span<const PostOp> ops, const Layout& result, void* data) {
  if (ops.size() != 1 || ops[0].kind != PostOp::Relu || result.dtype != ir::DType::F32 || !packed_like(result, result))
    return false;
  float* x = static_cast<float*>(data);
  const int64_t n = ir::product(result.shape);
  share_out(n, n > 64 * 1024, [&](int64_t begin, int64_t end, int) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) x[i] = x[i] < 0 ? 0 : x[i];
  });
  return true;
}

}  // namespace

void run_post_ops(std::span<const PostOp> ops, const Layout& result, void* data, const void* const* operands) {
  if (ops.empty() || run_relu(ops, result, data)) return;
  const int64_t columns = result.shape.empty() ? ir::Size(1) : result.shape.back();
  const int64_t rows = columns ? ir::product(result.shape) / columns : ir::Size(0);
  const size_t rank = result.shape.size();
  const auto offset_of = [&](const ir::Dims& strides, int64_t row) {
    int64_t at = 0;
    for (size_t d = rank; d-- > 1; row /= result.shape[d - 1]) at += row % result.shape[d - 1] * strides[d - 1];
    return at;
  };
  with_element_type(result.dtype, [&](auto e) {
    using T = decltype(e);
    using C = Compute<T>;
    share_out(rows, rows * columns > 64 * 1024, [&](int64_t first_row, int64_t last_row, int) {
      for (int64_t row = first_row; row < last_row; ++row) {
        T* out = static_cast<T*>(data) + offset_of(result.strides, row);
        const int64_t step = rank ? result.strides[rank - 1] : ir::Size(0);
        for (int64_t begin = 0; begin < columns; begin += kChunk) {
          const int64_t n = std::min(kChunk, columns - begin);
          C x[kChunk], y[kChunk] = {};
          for (int64_t j = 0; j < n; ++j) x[j] = static_cast<C>(out[(begin + j) * step]);
          size_t at = 0;
          for (const PostOp& op : ops) {
            if (has_operand(op)) {
              const ir::Dims& strides = op.operand.strides;
              const int64_t along = rank ? strides[rank - 1] : ir::Size(0),
                            first = offset_of(strides, row) + begin * along;
              for (int64_t j = 0; j < n; ++j) y[j] = load<C>(op.operand.dtype, operands[at], first + j * along);
              ++at;
            }
            for (int64_t j = 0; j < n; ++j) x[j] = apply_post_op(op, x[j], y[j]);
          }
          for (int64_t j = 0; j < n; ++j) out[(begin + j) * step] = static_cast<T>(x[j]);
        }
      }
    });
  });
}

}  // namespace lazuli::lowering
