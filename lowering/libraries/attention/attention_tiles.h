// What attention and its gradients have in common: tiles of scores, and products between them and rows of one head.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include "lowering/instruction_sets/instruction_sets.h"
#include "lowering/libraries/attention/attention.h"

namespace lazuli::lowering {

// Of one head: row i is at data + i * stride.
struct HeadRows {
  const float* data;
  int64_t stride;
  const float* row(int64_t i) const { return data + i * stride; }
};
// A head of an operand of shape [batch, rows, heads, ...].
inline int64_t head_offset(const Layout& x, int64_t batch, int64_t head) {
  return batch * x.strides[0] + head * x.strides[2];
}
inline HeadRows rows_of(const Layout& x, const void* data, int64_t batch, int64_t head) {
  return {static_cast<const float*>(data) + head_offset(x, batch, head), x.strides[1]};
}

// Of one head's mask, what is added to the scores of a row.
struct MaskRow {
  const float* data = nullptr;  // null: nothing
  int64_t step = 0;
  MaskRow from(int64_t key) const { return data ? MaskRow{data + key * step, step} : MaskRow{}; }
};
class HeadMask {
 public:
  HeadMask() = default;
  HeadMask(const Layout& mask, const void* data, int64_t batch, int64_t head);
  MaskRow row(int64_t query) const { return data_ ? MaskRow{data_ + query * row_, column_} : MaskRow{}; }

 private:
  const float* data_ = nullptr;
  int64_t row_ = 0, column_ = 0;
};

// Throws TypeError for all but float32.
void check_attention_type(ir::DType type);

// The sizes of a problem.
struct AttentionShape {
  int64_t batch, heads, groups, queries, keys, depth, width;
  bool causal;
  AttentionShape(const AttentionOperands& in, bool is_causal);
  int64_t heads_in_group() const { return heads / groups; }
  int64_t products() const;  // multiplications of the forward pass
  // How many keys the query meets.
  int64_t keys_of(int64_t query) const { return causal ? std::min(keys, query + 1) : keys; }
};

// So few of a head's queries are not worth packing keys.
inline constexpr int64_t kFewQueries = 4;

// A worker's memory in parts of these sizes, each at a multiple of a vector.
inline int64_t padded_part(int64_t size) { return rounded_up(size, 16); }
template <size_t n>
int64_t size_of_parts(const std::array<int64_t, n>& sizes) {
  int64_t all = 0;
  for (int64_t size : sizes) all += padded_part(size);
  return all;
}
template <size_t n>
std::array<float*, n> parts_of(float* memory, const std::array<int64_t, n>& sizes) {
  std::array<float*, n> parts;
  for (size_t i = 0; i < n; ++i) parts[i] = memory, memory += padded_part(sizes[i]);
  return parts;
}

// n cut into pieces of about `most` that are multiples of `step`.
int64_t even_piece(int64_t n, int64_t most, int64_t step);

// sums[r][c] = or += sum over k of rows[r][k] * columns[k][c]. Rows, and so those of sums, are there up to a multiple
// of the register block's; columns up to a multiple of lanes.
struct TileRows {
  const float* data;
  int64_t row, depth;  // strides
};
// Of columns that are a multiple of the register block's, element k is at data + k * stride, and the c-th's at c * step
// more.
struct TileColumns {
  const float* data;
  int64_t stride, step;
};
inline TileColumns columns_in_place(const float* data, int64_t stride) { return {data, stride, 1}; }
// As pack() leaves them, in panels of the register block's columns.
inline TileColumns packed_columns(const float* panels, int64_t depth) {
  return {panels, register_block().columns<float>(), depth};
}
struct TileSums {
  float* data;
  int64_t stride, rows, columns;
  bool is_zero;
};
void tile_product(const TileRows& rows, const TileColumns& columns, int64_t depth, const TileSums& sums);

// Rows of `columns` numbers, with zeros up to `to_stride` behind them.
void copy_padded(HeadRows from, int64_t rows, int64_t columns, float* to, int64_t to_stride);
int64_t lanes_of_floats();
int64_t padded_columns(int64_t columns);  // up to a multiple of lanes

// A row's softmax so far.
struct SoftmaxState {
  float largest = -std::numeric_limits<float>::infinity(), sum = 0;
  void write(float* statistics) const;
};
// Makes the scores of `n` more keys their exponentials, and those up to `padded`, a multiple of lanes, zeros. Returns
// by what has been summed up before is to be multiplied.
float exponentials(float* scores, int64_t n, int64_t padded, float scale, const MaskRow& mask, SoftmaxState& state);

// From n scores and gradients of probabilities: probabilities, and gradients of scores; zeros up to `padded`.
// `statistics`: what SoftmaxState::write() left.
void score_gradients(float* scores, float* gradients, int64_t n, int64_t padded, float scale, const MaskRow& mask,
                     const float* statistics, float delta);

// to = from * factor, n numbers.
void scale_row(const float* from, float factor, int64_t n, float* to);
// to[i * stride + c] = or += p[i] * x[c]
void outer_product(const float* p, int64_t n, const float* x, int64_t columns, float* to, int64_t stride, bool is_zero);
float dot(const float* x, const float* y, int64_t n);

// Scores of one query: out[i] = q . row i of k, depth deep.
void row_scores(const float* q, HeadRows k, int64_t depth, int64_t n, float* out);
// out += sum over i of p[i] * row i of v.
void add_weighted_rows(const float* p, HeadRows v, int64_t n, int64_t width, float* out);

}  // namespace lazuli::lowering
