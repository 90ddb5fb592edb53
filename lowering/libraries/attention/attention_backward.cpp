#include <algorithm>
#include <array>
#include <cstring>
#include <vector>
#include "lowering/libraries/attention/attention.h"
#include "lowering/libraries/attention/attention_tiles.h"
#include "lowering/libraries/product/pack.h"
#include "lowering/threads/crew.h"
#include "lowering/threads/little_work.h"

namespace lazuli::lowering {
namespace {

constexpr int64_t kFewTasks = 8;              // below which a group's keys are shared out, too
constexpr int64_t kWorthSplitting = 4 << 20;  // products of one part

// Tile after tile of keys meets all queries of the heads that share them: the tile's gradients are summed up, and added
// to those of the queries. Where there are few heads, keys are cut in parts, each with gradients of queries of its own,
// which are added up in the end. How many parts follows from sizes alone.
class AttentionBackward final : public LibraryCall {
 public:
  AttentionBackward(const Layout& gy, const AttentionOperands& in, const Layout& out, const Layout& statistics,
                    const AttentionGradients& results, const AttentionParams& params)
      : shape_(in, params.causal),
        gy_(gy),
        q_(in.q),
        k_(in.k),
        v_(in.v),
        out_(out),
        statistics_(statistics),
        mask_(in.mask ? *in.mask : Layout{}),
        gq_(results.gq),
        gk_(results.gk),
        gv_(results.gv),
        has_mask_(in.mask),
        scale_(static_cast<float>(params.scale)),
        threads_(is_little(2 * shape_.products()) ? 1 : crew_size()) {
    const RegisterBlock block = register_block();
    queries_ = even_piece(shape_.queries, kMostQueries, block.rows);
    keys_ = even_piece(shape_.keys, kMostKeys, block.columns<float>());
    const int64_t tiles = (shape_.keys + keys_ - 1) / keys_, groups = shape_.batch * shape_.groups;
    while (!are_few() && groups * parts_ < kFewTasks && 2 * parts_ <= tiles &&
           shape_.products() > kWorthSplitting * groups * parts_)
      parts_ *= 2;
    part_ = (tiles + parts_ - 1) / parts_ * keys_;
    parts_ = (shape_.keys + part_ - 1) / part_;
  }

  void run(const void* const* operands, void* const* results, void* scratch) override {
    auto* memory = static_cast<float*>(scratch);
    float* partial = memory + threads_ * scratch_of_one();
    const int64_t groups = shape_.batch * shape_.groups;
    share_out(groups * parts_, threads_, [&](int64_t begin, int64_t end, int worker) {
      const Scratch s = scratch_at(memory + worker * scratch_of_one());
      for (int64_t i = begin; i < end; ++i) {
        const int64_t part = i % parts_, group = i / parts_ % shape_.groups, batch = i / parts_ / shape_.groups;
        float* gq = parts_ > 1 ? partial + i * gradients_of_queries() : s.gq;
        if (are_few())
          run_few(operands, results, s, batch, group);
        else
          run_keys(operands, results, s, gq, batch, group, part * part_, std::min(shape_.keys, (part + 1) * part_));
        if (parts_ == 1 && !are_few()) write_queries(results, gq, batch, group, 0, shape_.queries);
      }
    });
    if (parts_ > 1) add_parts(results, partial);
  }

  size_t scratch_bytes() const override {
    const int64_t partial = parts_ > 1 ? shape_.batch * shape_.groups * parts_ * gradients_of_queries() : 0;
    return static_cast<size_t>(threads_ * scratch_of_one() + partial) * sizeof(float);
  }
  std::string describe() const override { return "attention_backward:own:f32"; }

 private:
  static constexpr int64_t kMostQueries = 72, kMostKeys = 128;  // of a tile of scores

  bool are_few() const { return shape_.queries <= kFewQueries; }

  // Where a worker keeps what. Rows are padded to vectors, and there are more by a register block's.
  struct Scratch {
    float *packed_k, *packed_v, *k, *q, *gy, *scores, *gradients, *gk, *gv, *deltas, *gq;
  };
  int64_t depth() const { return rounded_up(shape_.depth, register_block().columns<float>()); }
  int64_t width() const { return rounded_up(shape_.width, register_block().columns<float>()); }
  int64_t rows() const { return shape_.queries + register_block().rows; }
  int64_t gradients_of_queries() const { return shape_.heads_in_group() * rows() * depth(); }
  std::array<int64_t, 11> sizes() const {
    const int64_t rows_of_q = queries_ + register_block().rows, rows_of_k = keys_ + register_block().rows;
    const int64_t scores =
        std::max(rows_of_q * keys_ + register_block().rows, rounded_up(shape_.keys, lanes_of_floats()));
    return {keys_ * shape_.depth,
            keys_ * shape_.width,
            keys_ * depth(),
            rows_of_q * depth(),
            rows_of_q * width(),
            scores,
            scores,
            rows_of_k * depth(),
            rows_of_k * width(),
            shape_.heads_in_group() * shape_.queries,
            parts_ > 1 ? 0 : gradients_of_queries()};
  }
  Scratch scratch_at(float* memory) const {
    const auto p = parts_of(memory, sizes());
    return {p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], p[10]};
  }
  int64_t scratch_of_one() const { return size_of_parts(sizes()); }

  struct Head {
    HeadRows gy, q;
    HeadMask mask;
    const float* statistics;
    const float* deltas;  // by query: gy . out
    float* gq;
  };

  void run_keys(const void* const* operands, void* const* results, const Scratch& s, float* gq, int64_t batch,
                int64_t group, int64_t begin, int64_t end) const {
    const int64_t in_group = shape_.heads_in_group(), block = register_block().columns<float>();
    std::fill(s.q, s.q + (queries_ + register_block().rows) * depth(), 0.0f);
    std::fill(s.gy, s.gy + (queries_ + register_block().rows) * width(), 0.0f);
    std::vector<Head> heads;
    for (int64_t i = 0; i < in_group; ++i)
      heads.push_back(
          head_of(operands, batch, group * in_group + i, s.deltas + i * shape_.queries, gq + i * rows() * depth()));
    const HeadRows k = rows_of(k_, operands[2], batch, group), v = rows_of(v_, operands[3], batch, group);
    for (int64_t key = begin; key < end; key += keys_) {
      const int64_t keys = std::min(keys_, end - key);
      pack(Matrix<float>{k.row(key), k.stride, 1}, keys, shape_.depth, block, s.packed_k);
      pack(Matrix<float>{v.row(key), v.stride, 1}, keys, shape_.width, block, s.packed_v);
      copy_padded({k.row(key), k.stride}, keys, shape_.depth, s.k, depth());
      bool is_first = true;
      for (const Head& h : heads)
        for (int64_t i = 0; i < shape_.queries; i += queries_) {
          const int64_t count = std::min(queries_, shape_.queries - i);
          const int64_t meets = std::min(keys, shape_.keys_of(i + count - 1) - key);
          if (meets > 0) {
            run_tile(h, s, i, count, key, keys, key == begin, is_first);
            is_first = false;
          } else if (key == begin) {
            std::fill(h.gq + i * depth(), h.gq + (i + count) * depth(), 0.0f);
          }
        }
      write_keys(results, s, batch, group, key, keys, is_first);
    }
  }

  void run_few(const void* const* operands, void* const* results, const Scratch& s, int64_t batch,
               int64_t group) const {
    const HeadRows k = rows_of(k_, operands[2], batch, group), v = rows_of(v_, operands[3], batch, group);
    float* gk = static_cast<float*>(results[1]) + head_offset(gk_, batch, group);
    float* gv = static_cast<float*>(results[2]) + head_offset(gv_, batch, group);
    bool is_first = true;
    for (int64_t i = 0; i < shape_.heads_in_group(); ++i) {
      const int64_t head = group * shape_.heads_in_group() + i;
      const Head h = head_of(operands, batch, head, s.deltas, s.gq);
      for (int64_t query = 0; query < shape_.queries; ++query, is_first = false) {
        const int64_t keys = shape_.keys_of(query);
        row_scores(h.q.row(query), k, shape_.depth, keys, s.scores);
        row_scores(h.gy.row(query), v, shape_.width, keys, s.gradients);
        score_gradients(s.scores, s.gradients, keys, padded_columns(keys), scale_, h.mask.row(query),
                        h.statistics + query * statistics_.strides[2], h.deltas[query]);
        scale_row(s.gradients, scale_, keys, s.gradients);
        float* gq = static_cast<float*>(results[0]) + head_offset(gq_, batch, head) + query * gq_.strides[1];
        std::fill(gq, gq + shape_.depth, 0.0f);
        add_weighted_rows(s.gradients, k, keys, shape_.depth, gq);
        outer_product(s.gradients, keys, h.q.row(query), shape_.depth, gk, gk_.strides[1], is_first);
        outer_product(s.scores, keys, h.gy.row(query), shape_.width, gv, gv_.strides[1], is_first);
        for (int64_t key = keys; is_first && key < shape_.keys; ++key) {
          std::fill_n(gk + key * gk_.strides[1], shape_.depth, 0.0f);
          std::fill_n(gv + key * gv_.strides[1], shape_.width, 0.0f);
        }
      }
    }
  }

  Head head_of(const void* const* operands, int64_t batch, int64_t head, float* deltas, float* gq) const {
    const HeadRows gy = rows_of(gy_, operands[0], batch, head), out = rows_of(out_, operands[4], batch, head);
    for (int64_t i = 0; i < shape_.queries; ++i) deltas[i] = dot(gy.row(i), out.row(i), shape_.width);
    Head h{
        gy,     rows_of(q_, operands[1], batch, head),
        {},     static_cast<const float*>(operands[5]) + batch * statistics_.strides[0] + head * statistics_.strides[1],
        deltas, gq};
    if (has_mask_) h.mask = HeadMask(mask_, operands[6], batch, head);
    return h;
  }

  // `count` queries from i on meet `keys` keys from `key` on.
  void run_tile(const Head& h, const Scratch& s, int64_t i, int64_t count, int64_t key, int64_t keys, bool first_keys,
                bool first_queries) const {
    const int64_t depth = this->depth(), width = this->width(), padded = padded_columns(keys);
    copy_padded({h.q.row(i), h.q.stride}, count, shape_.depth, s.q, depth);
    copy_padded({h.gy.row(i), h.gy.stride}, count, shape_.width, s.gy, width);
    tile_product({s.q, depth, 1}, packed_columns(s.packed_k, shape_.depth), shape_.depth,
                 {s.scores, keys_, count, keys, true});
    tile_product({s.gy, width, 1}, packed_columns(s.packed_v, shape_.width), shape_.width,
                 {s.gradients, keys_, count, keys, true});
    for (int64_t r = 0; r < count; ++r) {
      const int64_t query = i + r, meets = std::clamp<int64_t>(shape_.keys_of(query) - key, 0, keys);
      score_gradients(s.scores + r * keys_, s.gradients + r * keys_, meets, padded, scale_, h.mask.row(query).from(key),
                      h.statistics + query * statistics_.strides[2], h.deltas[query]);
    }
    tile_product({s.scores, 1, keys_}, columns_in_place(s.gy, width), count,
                 {s.gv, width, keys, shape_.width, first_queries});
    tile_product({s.gradients, 1, keys_}, columns_in_place(s.q, depth), count,
                 {s.gk, depth, keys, shape_.depth, first_queries});
    tile_product({s.gradients, keys_, 1}, columns_in_place(s.k, depth), keys,
                 {h.gq + i * depth, depth, count, shape_.depth, first_keys});
  }

  void write_keys(void* const* results, const Scratch& s, int64_t batch, int64_t group, int64_t key, int64_t keys,
                  bool none) const {
    float* gk = static_cast<float*>(results[1]) + head_offset(gk_, batch, group) + key * gk_.strides[1];
    float* gv = static_cast<float*>(results[2]) + head_offset(gv_, batch, group) + key * gv_.strides[1];
    for (int64_t i = 0; i < keys; ++i, gk += gk_.strides[1], gv += gv_.strides[1]) {
      if (none) {
        std::fill(gk, gk + shape_.depth, 0.0f), std::fill(gv, gv + shape_.width, 0.0f);
      } else {
        scale_row(s.gk + i * depth(), scale_, shape_.depth, gk);
        std::memcpy(gv, s.gv + i * width(), static_cast<size_t>(shape_.width) * sizeof(float));
      }
    }
  }

  void write_queries(void* const* results, const float* sums, int64_t batch, int64_t group, int64_t first,
                     int64_t last) const {
    for (int64_t i = 0; i < shape_.heads_in_group(); ++i) {
      float* gq = static_cast<float*>(results[0]) + head_offset(gq_, batch, group * shape_.heads_in_group() + i);
      for (int64_t query = first; query < last; ++query)
        scale_row(sums + (i * rows() + query) * depth(), scale_, shape_.depth, gq + query * gq_.strides[1]);
    }
  }

  void add_parts(void* const* results, float* partial) const {
    const int64_t size = gradients_of_queries();
    share_out(shape_.batch * shape_.groups * shape_.queries, threads_, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t query = i % shape_.queries, group = i / shape_.queries;
        float* sums = partial + group * parts_ * size;
        for (int64_t h = 0; h < shape_.heads_in_group(); ++h) {
          float* to = sums + (h * rows() + query) * depth();
          for (int64_t part = 1; part < parts_; ++part) {
            const float* from = to + part * size;
            for (int64_t c = 0; c < shape_.depth; ++c) to[c] += from[c];
          }
        }
        write_queries(results, sums, group / shape_.groups, group % shape_.groups, query, query + 1);
      }
    });
  }

  const AttentionShape shape_;
  const Layout gy_, q_, k_, v_, out_, statistics_, mask_, gq_, gk_, gv_;
  const bool has_mask_;
  const float scale_;
  const int threads_;
  int64_t queries_, keys_;        // of a tile
  int64_t parts_ = 1, part_ = 0;  // of a group's keys; keys of one
};

}  // namespace

std::unique_ptr<LibraryCall> make_attention_backward(const Layout& gy, const AttentionOperands& in, const Layout& out,
                                                     const Layout& statistics, const AttentionGradients& results,
                                                     const AttentionParams& params) {
  check_attention_type(in.q.dtype);
  return std::make_unique<AttentionBackward>(gy, in, out, statistics, results, params);
}

}  // namespace lazuli::lowering
