#include "lowering/libraries/attention/attention_tiles.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include "ir/error.h"
#include "lowering/libraries/convolution/patch_kernel.h"

namespace lazuli::lowering {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The rows of a tile, spelled once for each target: GCC splits vector types for the function that they stand in.

// exp(x) of x <= 0 or little more: 2^n exp(r), as targets/math/exp.cpp makes it. Below the smallest normal number 0. A
// sum with 1.5 * 2^23 is rounded to an integer, which then is its low bits.
#define LAZULI_EXP(x)                                                                    \
  ({                                                                                     \
    const Vector shifted = x * 1.44269504f + 12582912.0f, whole = shifted - 12582912.0f; \
    const Vector r = whole * 0x1.05c61p-29f + (whole * -0x1.62e43p-1f + x);              \
    Vector p = 0.0013942220248281956f * r + 0.008368860930204391f;                       \
    p = p * r + 0.041666384786367416f;                                                   \
    p = p * r + 0.1666651964187622f;                                                     \
    p = p * r + 0.5f;                                                                    \
    const Bits power = (reinterpret_cast<Bits>(shifted) - (0x4b400000 - 127)) << 23;     \
    const Vector y = ((r * r) * p + r + 1.0f) * reinterpret_cast<Vector>(power);         \
    x < -87.0f ? Vector{} : y;                                                           \
  })

// The scores of a vector, scaled and masked; those from n on are -inf. Only n numbers of the mask may be read. Forward
// and backward must see the same numbers: so what is subtracted from them is not fused with how they are made.
#define LAZULI_SCALED(i)                                                                                          \
  ({                                                                                                              \
    Vector scaled = *reinterpret_cast<const Loose*>(s + i) * scale;                                               \
    if (i + kLanes > n) {                                                                                         \
      for (int64_t lane = 0; lane < kLanes; ++lane)                                                               \
        scaled[lane] = i + lane >= n ? -kInfinity : mask ? scaled[lane] + mask[(i + lane) * step] : scaled[lane]; \
    } else if (mask) {                                                                                            \
      scaled += step == 1 ? *reinterpret_cast<const Loose*>(mask + i) : Loose{} + *mask;                          \
    }                                                                                                             \
    __asm__("" : "+v"(scaled));                                                                                   \
    scaled;                                                                                                       \
  })

template <InstructionSet>
struct ScoreRows;
#define LAZULI_ROWS(set, target)                                                                                      \
  template <>                                                                                                         \
  struct ScoreRows<set> {                                                                                             \
    typedef float Vector __attribute__((vector_size(kRegisterBlock<set>.vector_bytes)));                              \
    typedef float Loose __attribute__((vector_size(kRegisterBlock<set>.vector_bytes), aligned(4)));                   \
    typedef int32_t Bits __attribute__((vector_size(kRegisterBlock<set>.vector_bytes)));                              \
    static constexpr int64_t kLanes = kRegisterBlock<set>.vector_bytes / 4;                                           \
    target static float exponentials(float* s, int64_t n, int64_t padded, float scale, const float* mask,             \
                                     int64_t step, SoftmaxState& state) {                                             \
      Vector most = Vector{} + state.largest;                                                                         \
      for (int64_t i = 0; i < padded; i += kLanes) {                                                                  \
        const Vector x = LAZULI_SCALED(i);                                                                            \
        *reinterpret_cast<Loose*>(s + i) = x;                                                                         \
        most = x > most ? x : most;                                                                                   \
      }                                                                                                               \
      float largest = state.largest;                                                                                  \
      for (int64_t lane = 0; lane < kLanes; ++lane) largest = most[lane] > largest ? most[lane] : largest;            \
      const float shift = largest == -kInfinity ? 0 : largest; /* of a row of which all is masked */                  \
      Vector sums = {};                                                                                               \
      for (int64_t i = 0; i < padded; i += kLanes) {                                                                  \
        const Vector x = *reinterpret_cast<const Loose*>(s + i) - shift, e = LAZULI_EXP(x);                           \
        *reinterpret_cast<Loose*>(s + i) = e;                                                                         \
        sums += e;                                                                                                    \
      }                                                                                                               \
      float sum = 0;                                                                                                  \
      for (int64_t lane = 0; lane < kLanes; ++lane) sum += sums[lane];                                                \
      const float factor = std::exp(state.largest - shift);                                                           \
      state = {largest, state.sum * factor + sum};                                                                    \
      return factor;                                                                                                  \
    }                                                                                                                 \
    target static void score_gradients(float* s, float* g, int64_t n, int64_t padded, float scale, const float* mask, \
                                       int64_t step, const float* statistics, float delta) {                          \
      const float largest = statistics[0], log = statistics[1];                                                       \
      for (int64_t i = n; i < padded; ++i) g[i] = 0;                                                                  \
      for (int64_t i = 0; i < padded; i += kLanes) {                                                                  \
        const Vector x = LAZULI_SCALED(i) - largest - log, p = LAZULI_EXP(x);                                         \
        *reinterpret_cast<Loose*>(s + i) = p;                                                                         \
        *reinterpret_cast<Loose*>(g + i) = p * (*reinterpret_cast<const Loose*>(g + i) - delta);                      \
      }                                                                                                               \
    }                                                                                                                 \
  };
#define INSTRUCTION_SET(name, target, ...) LAZULI_ROWS(InstructionSet::name, target)
#include "lowering/instruction_sets/all.def"
#undef LAZULI_ROWS
#undef LAZULI_SCALED
#undef LAZULI_EXP

struct ScaleRow {
  static LAZULI_INLINE void run(const float* from, float factor, int64_t n, float* to) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] = from[i] * factor;
  }
};

struct Dot {
  static LAZULI_INLINE void run(const float* x, const float* y, int64_t n, float* out) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
    *out = sum;
  }
};

struct RowScores {
  static LAZULI_INLINE void run(const float* q, const float* k, int64_t stride, int64_t depth, int64_t n, float* out) {
    for (int64_t i = 0; i < n; ++i) Dot::run(q, k + i * stride, depth, out + i);
  }
};

struct AddWeightedRows {
  static LAZULI_INLINE void run(const float* p, const float* v, int64_t stride, int64_t n, int64_t width, float* out) {
    int64_t i = 0;
    for (; i + 4 <= n; i += 4, v += 4 * stride)
#pragma omp simd
      for (int64_t c = 0; c < width; ++c)
        out[c] +=
            p[i] * v[c] + p[i + 1] * v[stride + c] + (p[i + 2] * v[2 * stride + c] + p[i + 3] * v[3 * stride + c]);
    for (; i < n; ++i, v += stride)
#pragma omp simd
      for (int64_t c = 0; c < width; ++c) out[c] += p[i] * v[c];
  }
};

struct OuterProduct {
  static LAZULI_INLINE void run(const float* p, int64_t n, const float* x, int64_t columns, float* to, int64_t stride,
                                bool is_zero) {
    for (int64_t i = 0; i < n; ++i, to += stride) {
      const float factor = p[i];
      if (is_zero) {
        ScaleRow::run(x, factor, columns, to);
      } else {
#pragma omp simd
        for (int64_t c = 0; c < columns; ++c) to[c] += factor * x[c];
      }
    }
  }
};

const int64_t kNoSegment[] = {0};

}  // namespace

HeadMask::HeadMask(const Layout& mask, const void* data, int64_t batch, int64_t head)
    : data_(static_cast<const float*>(data)) {
  const auto stride = [&](size_t d) { return mask.shape[d] == 1 ? 0 : int64_t{mask.strides[d]}; };
  data_ += batch * stride(0) + head * stride(1);
  row_ = stride(2), column_ = stride(3);
}

void check_attention_type(ir::DType type) {
  if (type != ir::DType::F32) throw TypeError("no attention of " + std::string(ir::name(type)));
}

AttentionShape::AttentionShape(const AttentionOperands& in, bool is_causal)
    : batch(in.q.shape[0]),
      heads(in.q.shape[2]),
      groups(in.k.shape[2]),
      queries(in.q.shape[1]),
      keys(in.k.shape[1]),
      depth(in.q.shape[3]),
      width(in.v.shape[3]),
      causal(is_causal) {
  LAZULI_CHECK(batch > 0 && queries > 0 && keys > 0 && depth > 0 && width > 0 && groups > 0,
               "attention of nothing is no attention");
  LAZULI_CHECK(heads > 0 && heads % groups == 0, "heads of attention do not share keys evenly");
}

int64_t AttentionShape::products() const { return batch * heads * queries * keys * (depth + width); }

int64_t even_piece(int64_t n, int64_t most, int64_t step) {
  const int64_t pieces = std::max<int64_t>(1, (n + most - 1) / most);
  return std::max(step, rounded_up((n + pieces - 1) / pieces, step));
}

void tile_product(const TileRows& rows, const TileColumns& columns, int64_t depth, const TileSums& sums) {
  const RegisterBlock block = register_block();
  for (int64_t c = 0; c < sums.columns; c += block.columns<float>()) {
    const int vectors = sums.columns - c <= block.lanes<float>() ? 1 : 2;
    for (int64_t r = 0; r < sums.rows; r += block.rows)
      patch_kernel({rows.data + r * rows.row, rows.row, rows.depth, kNoSegment, depth},
                   {columns.data + c * columns.step, columns.stride, vectors},
                   {sums.data + r * sums.stride + c, sums.stride, sums.is_zero});
  }
}

void copy_padded(HeadRows from, int64_t rows, int64_t columns, float* to, int64_t to_stride) {
  for (int64_t r = 0; r < rows; ++r, to += to_stride) {
    std::memcpy(to, from.row(r), static_cast<size_t>(columns) * sizeof(float));
    std::fill(to + columns, to + to_stride, 0.0f);
  }
}

int64_t lanes_of_floats() { return register_block().lanes<float>(); }
int64_t padded_columns(int64_t columns) { return rounded_up(columns, lanes_of_floats()); }

void SoftmaxState::write(float* statistics) const {
  statistics[0] = sum == 0 ? 0 : largest;
  statistics[1] = sum == 0 ? kInfinity : std::log(sum);
}

float exponentials(float* scores, int64_t n, int64_t padded, float scale, const MaskRow& mask, SoftmaxState& state) {
  return for_host(
      [&](auto set) { return ScoreRows<set()>::exponentials(scores, n, padded, scale, mask.data, mask.step, state); });
}

void score_gradients(float* scores, float* gradients, int64_t n, int64_t padded, float scale, const MaskRow& mask,
                     const float* statistics, float delta) {
  for_host([&](auto set) {
    ScoreRows<set()>::score_gradients(scores, gradients, n, padded, scale, mask.data, mask.step, statistics, delta);
  });
}

void scale_row(const float* from, float factor, int64_t n, float* to) { run_for_host<ScaleRow>(from, factor, n, to); }

void outer_product(const float* p, int64_t n, const float* x, int64_t columns, float* to, int64_t stride,
                   bool is_zero) {
  run_for_host<OuterProduct>(p, n, x, columns, to, stride, is_zero);
}

float dot(const float* x, const float* y, int64_t n) {
  float sum = 0;
  run_for_host<Dot>(x, y, n, &sum);
  return sum;
}

void row_scores(const float* q, HeadRows k, int64_t depth, int64_t n, float* out) {
  run_for_host<RowScores>(q, k.data, k.stride, depth, n, out);
}

void add_weighted_rows(const float* p, HeadRows v, int64_t n, int64_t width, float* out) {
  run_for_host<AddWeightedRows>(p, v.data, v.stride, n, width, out);
}

}  // namespace lazuli::lowering
