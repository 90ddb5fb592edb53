#include "lowering/libraries/attention/attention.h"
#include <algorithm>
#include <array>
#include "lowering/libraries/attention/attention_tiles.h"
#include "lowering/libraries/product/pack.h"
#include "lowering/threads/crew.h"
#include "lowering/threads/little_work.h"

namespace lazuli::lowering {
namespace {

constexpr int64_t kMostChunk = 480, kLeastChunk = 48;  // queries that meet keys packed once

// A chunk of one head's queries meets tile after tile of keys. What is summed up of each query is kept, and rescaled
// where a larger score comes.
class Attention final : public LibraryCall {
 public:
  Attention(const AttentionOperands& in, const Layout& out, const Layout& statistics, const AttentionParams& params)
      : shape_(in, params.causal),
        q_(in.q),
        k_(in.k),
        v_(in.v),
        out_(out),
        statistics_(statistics),
        mask_(in.mask ? *in.mask : Layout{}),
        has_mask_(in.mask),
        scale_(static_cast<float>(params.scale)),
        threads_(is_little(shape_.products()) ? 1 : crew_size()) {
    const RegisterBlock block = register_block();
    const int64_t heads = shape_.batch * shape_.heads;
    int64_t chunks = (shape_.queries + kMostChunk - 1) / kMostChunk;
    while (threads_ > 1 && heads * chunks < 4 * threads_ && shape_.queries >= 2 * kLeastChunk * chunks) chunks *= 2;
    chunk_ = even_piece(shape_.queries, (shape_.queries + chunks - 1) / chunks, block.rows);
    chunks_ = (shape_.queries + chunk_ - 1) / chunk_;
    queries_ = even_piece(chunk_, kMostQueries, block.rows);
    keys_ = even_piece(shape_.keys, kMostKeys, block.columns<float>());
    copies_v_ = shape_.width % block.lanes<float>() != 0;
  }

  void run(const void* const* operands, void* const* results, void* scratch) override {
    share_out(shape_.batch * shape_.heads * chunks_, threads_, [&](int64_t begin, int64_t end, int worker) {
      auto* mine =
          reinterpret_cast<float*>(static_cast<char*>(scratch) + static_cast<size_t>(worker) * scratch_of_one());
      for (int64_t i = begin; i < end; ++i) {
        const int64_t chunk = i % chunks_, head = i / chunks_ % shape_.heads, batch = i / chunks_ / shape_.heads;
        const Head h = head_of(operands, results, batch, head);
        const int64_t first = chunk * chunk_, last = std::min(shape_.queries, first + chunk_);
        if (shape_.queries <= kFewQueries)
          run_few(h, first, last, mine);
        else
          run_chunk(h, first, last, mine);
      }
    });
  }

  size_t scratch_bytes() const override { return static_cast<size_t>(threads_) * scratch_of_one(); }
  std::string describe() const override { return "attention:own:f32"; }

 private:
  static constexpr int64_t kMostQueries = 72, kMostKeys = 320;  // of a tile of scores

  struct Head {
    HeadRows q, k, v;
    HeadMask mask;
    float* out;
    float* statistics;
  };
  Head head_of(const void* const* operands, void* const* results, int64_t batch, int64_t head) const {
    const int64_t group = head / shape_.heads_in_group();
    Head h{rows_of(q_, operands[0], batch, head),
           rows_of(k_, operands[1], batch, group),
           rows_of(v_, operands[2], batch, group),
           {},
           static_cast<float*>(results[0]) + head_offset(out_, batch, head),
           static_cast<float*>(results[1]) + batch * statistics_.strides[0] + head * statistics_.strides[1]};
    if (has_mask_) h.mask = HeadMask(mask_, operands[3], batch, head);
    return h;
  }

  // Where a worker keeps what.
  struct Scratch {
    float *q, *k, *v, *scores, *sums;
    SoftmaxState* states;
  };
  int64_t rows() const { return rounded_up(chunk_, register_block().rows) + register_block().rows; }
  int64_t width() const { return rounded_up(shape_.width, register_block().columns<float>()); }
  std::array<int64_t, 6> sizes() const {
    const int64_t tile_rows = queries_ + register_block().rows;
    return {rows() * shape_.depth,
            keys_ * shape_.depth + 2 * lanes_of_floats(),
            copies_v_ ? keys_ * width() : 0,
            std::max(tile_rows * keys_, rounded_up(shape_.keys, lanes_of_floats())),
            rows() * width(),
            2 * rows()};
  }
  Scratch scratch_at(float* memory) const {
    const auto p = parts_of(memory, sizes());
    return {p[0], p[1], p[2], p[3], p[4], reinterpret_cast<SoftmaxState*>(p[5])};
  }
  size_t scratch_of_one() const { return static_cast<size_t>(size_of_parts(sizes())) * sizeof(float); }

  void run_chunk(const Head& h, int64_t first, int64_t last, float* memory) const {
    const Scratch s = scratch_at(memory);
    const int64_t depth = shape_.depth, width = this->width(), count = last - first;
    copy_padded({h.q.row(first), h.q.stride}, count, depth, s.q, depth);
    std::fill(s.q + count * depth, s.q + rows() * depth, 0.0f);
    std::fill(s.states, s.states + count, SoftmaxState{});
    const int64_t end = shape_.keys_of(last - 1);
    for (int64_t key = 0; key < end; key += keys_) {
      const int64_t keys = std::min(keys_, end - key);
      pack(Matrix<float>{h.k.row(key), h.k.stride, 1}, keys, depth, register_block().columns<float>(), s.k);
      HeadRows v{h.v.row(key), h.v.stride};
      if (copies_v_) {
        copy_padded(v, keys, shape_.width, s.v, width);
        v = {s.v, width};
      }
      for (int64_t i = 0; i < count; i += queries_)
        run_tile(h, s, first, i, std::min(queries_, count - i), key,
                 std::min(keys, shape_.keys_of(first + std::min(count, i + queries_) - 1) - key), v);
    }
    for (int64_t i = 0; i < count; ++i) finish(h, first + i, s.states[i], s.sums + i * width);
  }

  // Queries i to i + count of the chunk that begins at `first` meet `keys` keys from `key` on.
  void run_tile(const Head& h, const Scratch& s, int64_t first, int64_t i, int64_t count, int64_t key, int64_t keys,
                HeadRows v) const {
    if (keys <= 0) return;
    const int64_t depth = shape_.depth, width = this->width(), padded = padded_columns(keys);
    tile_product({s.q + i * depth, depth, 1}, packed_columns(s.k, depth), depth, {s.scores, keys_, count, keys, true});
    for (int64_t r = 0; r < count; ++r) {
      const int64_t query = first + i + r, meets = std::clamp<int64_t>(shape_.keys_of(query) - key, 0, keys);
      const float factor =
          exponentials(s.scores + r * keys_, meets, padded, scale_, h.mask.row(query).from(key), s.states[i + r]);
      float* sums = s.sums + (i + r) * width;
      if (key > 0 && factor != 1) scale_row(sums, factor, width, sums);
    }
    tile_product({s.scores, keys_, 1}, columns_in_place(v.data, v.stride), keys,
                 {s.sums + i * width, width, count, shape_.width, key == 0});
  }

  void run_few(const Head& h, int64_t first, int64_t last, float* memory) const {
    const Scratch s = scratch_at(memory);
    for (int64_t query = first; query < last; ++query) {
      const int64_t keys = shape_.keys_of(query);
      SoftmaxState state;
      row_scores(h.q.row(query), h.k, shape_.depth, keys, s.scores);
      exponentials(s.scores, keys, padded_columns(keys), scale_, h.mask.row(query), state);
      std::fill(s.sums, s.sums + shape_.width, 0.0f);
      add_weighted_rows(s.scores, h.v, keys, shape_.width, s.sums);
      finish(h, query, state, s.sums);
    }
  }

  void finish(const Head& h, int64_t query, const SoftmaxState& state, const float* sums) const {
    const float factor = state.sum == 0 ? 0 : 1 / state.sum;
    scale_row(sums, factor, shape_.width, h.out + query * out_.strides[1]);
    state.write(h.statistics + query * statistics_.strides[2]);
  }

  const AttentionShape shape_;
  const Layout q_, k_, v_, out_, statistics_, mask_;
  const bool has_mask_;
  const float scale_;
  const int threads_;
  int64_t chunk_, chunks_, queries_, keys_;  // of a chunk; of a tile
  bool copies_v_;
};

}  // namespace

std::unique_ptr<LibraryCall> make_attention(const AttentionOperands& in, const Layout& out, const Layout& statistics,
                                            const AttentionParams& params) {
  check_attention_type(in.q.dtype);
  return std::make_unique<Attention>(in, out, statistics, params);
}

}  // namespace lazuli::lowering
