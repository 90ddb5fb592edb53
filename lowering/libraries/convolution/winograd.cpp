#include "lowering/libraries/convolution/winograd.h"
#include <algorithm>
#include <cstring>
#include "lowering/instruction_sets/instruction_sets.h"
#include "lowering/libraries/convolution/convolution_geometry.h"
#include "lowering/libraries/convolution/finish_points.h"
#include "lowering/libraries/convolution/patch_kernel.h"
#include "lowering/libraries/post_ops.h"
#include "lowering/libraries/strided_copy.h"
#include "lowering/threads/crew.h"
#include "lowering/threads/little_work.h"

namespace lazuli::lowering {
namespace {

using onednn::Convolution;
using onednn::Pass;

constexpr int64_t kTile = 2, kTaps = 3, kPatch = kTile + kTaps - 1;  // outputs, taps and inputs of a tile along a side
constexpr int64_t kParts = kPatch * kPatch;                          // numbers of a transformed tile
constexpr int64_t kPanel = 256;                                      // of weights, which stays in the first cache
constexpr int64_t kBlock = 80 << 10;                                 // floats of a block's tiles, in the second

// Pixels of an image whose channels lie side by side.
template <class T>
struct Pixels {
  T* data;
  int64_t row, pixel;
};

// What is done to outputs at once: first a number for each channel is added, if there is one.
struct Finish {
  const float* bias;
  bool relu;
};

// The weights of a channel of the image, of each tap for `count` channels of the result.
struct Weights {
  static constexpr int64_t kMost = 32;  // that a register block has
  float taps[kTaps * kTaps][kMost];
  int64_t count;
};

// The transforms, of whole vectors of channels. Spelled once for each target: GCC splits vector types for the function
// that they stand in.
template <InstructionSet>
struct Transforms;
#define LAZULI_TRANSFORMS(set, target)                                                                                \
  template <>                                                                                                         \
  struct Transforms<set> {                                                                                            \
    typedef float Vector __attribute__((vector_size(kRegisterBlock<set>.vector_bytes), aligned(4)));                  \
    static constexpr int64_t kLanes = kRegisterBlock<set>.vector_bytes / 4;                                           \
    target static LAZULI_INLINE Vector get(const float* from) { return *reinterpret_cast<const Vector*>(from); }      \
    target static LAZULI_INLINE void put(float* to, Vector v) { *reinterpret_cast<Vector*>(to) = v; }                 \
                                                                                                                      \
    target static void weights(const Weights& w, float* to, int64_t part) {                                           \
      for (int64_t c = 0; c < w.count; c += kLanes) {                                                                 \
        Vector rows[kPatch][kTaps];                                                                                   \
        for (int64_t x = 0; x < kTaps; ++x) {                                                                         \
          const Vector w0 = get(w.taps[x] + c), w1 = get(w.taps[kTaps + x] + c), w2 = get(w.taps[2 * kTaps + x] + c); \
          rows[0][x] = w0, rows[1][x] = 0.5f * (w0 + w2 + w1), rows[2][x] = 0.5f * (w0 + w2 - w1), rows[3][x] = w2;   \
        }                                                                                                             \
        for (int64_t y = 0; y < kPatch; ++y) {                                                                        \
          const Vector w0 = rows[y][0], w1 = rows[y][1], w2 = rows[y][2];                                             \
          float* at = to + y * kPatch * part + c;                                                                     \
          put(at, w0), put(at + part, 0.5f * (w0 + w2 + w1));                                                         \
          put(at + 2 * part, 0.5f * (w0 + w2 - w1)), put(at + 3 * part, w2);                                          \
        }                                                                                                             \
      }                                                                                                               \
    }                                                                                                                 \
                                                                                                                      \
    target static void patch(const Pixels<const float>& from, int64_t channels, float* to, int64_t part) {            \
      for (int64_t c = 0; c < channels; c += kLanes) {                                                                \
        Vector d[kPatch][kPatch];                                                                                     \
        _Pragma("GCC unroll 4") for (int64_t x = 0; x < kPatch; ++x) {                                                \
          const float* at = from.data + x * from.pixel + c;                                                           \
          const Vector d0 = get(at), d1 = get(at + from.row), d2 = get(at + 2 * from.row),                            \
                       d3 = get(at + 3 * from.row);                                                                   \
          d[0][x] = d0 - d2, d[1][x] = d1 + d2, d[2][x] = d2 - d1, d[3][x] = d1 - d3;                                 \
        }                                                                                                             \
        _Pragma("GCC unroll 4") for (int64_t y = 0; y < kPatch; ++y) {                                                \
          float* at = to + y * kPatch * part + c;                                                                     \
          put(at, d[y][0] - d[y][2]), put(at + part, d[y][1] + d[y][2]);                                              \
          put(at + 2 * part, d[y][2] - d[y][1]), put(at + 3 * part, d[y][1] - d[y][3]);                               \
        }                                                                                                             \
      }                                                                                                               \
    }                                                                                                                 \
                                                                                                                      \
    target static bool outputs(const float* from, int64_t part, int64_t channels, const Pixels<float>& to,            \
                               const Finish& finish) {                                                                \
      Vector odd{};                                                                                                   \
      for (int64_t c = 0; c < channels; c += kLanes) {                                                                \
        Vector rows[kTile][kPatch];                                                                                   \
        _Pragma("GCC unroll 4") for (int64_t x = 0; x < kPatch; ++x) {                                                \
          const float* at = from + x * part + c;                                                                      \
          const Vector m0 = get(at), m1 = get(at + kPatch * part), m2 = get(at + 2 * kPatch * part),                  \
                       m3 = get(at + 3 * kPatch * part);                                                              \
          rows[0][x] = m0 + m1 + m2, rows[1][x] = m1 - m2 - m3;                                                       \
        }                                                                                                             \
        _Pragma("GCC unroll 2") for (int64_t y = 0; y < kTile; ++y) {                                                 \
          Vector y0 = rows[y][0] + rows[y][1] + rows[y][2], y1 = rows[y][1] - rows[y][2] - rows[y][3];                \
          odd += y0 * 0.0f + y1 * 0.0f;                                                                               \
          if (finish.bias) y0 += get(finish.bias + c), y1 += get(finish.bias + c);                                    \
          if (finish.relu) y0 = y0 < 0 ? Vector{} : y0, y1 = y1 < 0 ? Vector{} : y1;                                  \
          put(to.data + y * to.row + c, y0), put(to.data + y * to.row + to.pixel + c, y1);                            \
        }                                                                                                             \
      }                                                                                                               \
      float sum = 0;                                                                                                  \
      for (int64_t i = 0; i < kLanes; ++i) sum += odd[i];                                                             \
      return sum == 0;                                                                                                \
    }                                                                                                                 \
  };
#define INSTRUCTION_SET(name, target, ...) LAZULI_TRANSFORMS(InstructionSet::name, target)
#include "lowering/instruction_sets/all.def"
#undef LAZULI_TRANSFORMS

// sums += x * w
struct AddScaled {
  LAZULI_INLINE static void run(float* sums, const float* w, float x, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) sums[i] += x * w[i];
  }
};

// What both the call and what packs its weights know. Of the packed weights, first come 16 matrices of transformed
// ones, each in blocks of columns as the micro-kernel reads them. Behind them are the weights themselves, as nine
// matrices.
struct Shape {
  explicit Shape(const Convolution& c)
      : g(c), in(g.x.channels), out(g.y.channels), image(c.x.strides[0]), row(c.x.strides[2]), pixel(c.x.strides[3]) {}
  int64_t block() const { return register_block().columns<float>(); }
  int64_t blocks() const { return (out + block() - 1) / block(); }
  int64_t width(int64_t b) const { return std::min(block(), out - b * block()); }
  int64_t plain_at() const { return kParts * in * out; }
  int64_t packed_size() const { return plain_at() + kTaps * kTaps * in * out; }
  int64_t high() const { return (g.y.size[1] + kTile - 1) / kTile; }
  int64_t wide() const { return (g.y.size[2] + kTile - 1) / kTile; }
  int64_t tiles() const { return g.y.n * high() * wide(); }
  int64_t products() const { return kTaps * kTaps * g.y.n * g.y.points() * in * out; }  // of plain sums
  int threads() const { return is_little(products()) ? 1 : crew_size(); }
  Geometry g;
  int64_t in, out;
  int64_t image, row, pixel;  // strides of x
};

// How many tiles are computed together: what is computed of them stays in the cache, and each thread has as many.
int64_t tiles_of_block(const Shape& s) {
  const int64_t rows = register_block().rows, tiles = s.tiles();
  const int64_t most = std::clamp(kBlock / (kParts * (s.in + s.out)) / rows * rows, 2 * rows, 8 * rows);
  int64_t blocks = (tiles + most - 1) / most;
  if (tiles > 2 * rows) blocks = rounded_up(blocks, s.threads());
  return rounded_up((tiles + blocks - 1) / blocks, rows);
}

class PackWinograd final : public LibraryCall {
 public:
  explicit PackWinograd(const Convolution& c) : s_(c), threads_(s_.threads()) {}
  void run(const void* const* operands, void* const* results, void*) override {
    const auto* w = static_cast<const float*>(operands[0]);
    auto* packed = static_cast<float*>(results[0]);
    share_out(s_.blocks() * s_.in, threads_, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) pack(w, packed, i / s_.in, i % s_.in);
    });
  }
  size_t bytes() const { return static_cast<size_t>(s_.packed_size()) * sizeof(float); }
  std::string describe() const override { return "convolution_weights:winograd"; }

 private:
  void pack(const float* w, float* packed, int64_t block, int64_t channel) const {
    const int64_t first = block * s_.block(), width = s_.width(block);
    Weights part{{}, width};
    w += first * s_.g.w_out + channel * s_.g.w_in;
    float* plain = packed + s_.plain_at() + channel * s_.out + first;
    for (int64_t t = 0; t < kTaps * kTaps; ++t) {
      const float* from = w + t / kTaps * s_.g.tap[1] + t % kTaps * s_.g.tap[2];
      for (int64_t i = 0; i < width; ++i) part.taps[t][i] = from[i * s_.g.w_out];
      std::memcpy(plain + t * s_.in * s_.out, part.taps[t], width * sizeof(float));
    }
    for_host(
        [&](auto set) { Transforms<set()>::weights(part, packed + first * s_.in + channel * width, s_.in * s_.out); });
  }

  Shape s_;
  int threads_;
};

class UnpackWinograd final : public LibraryCall {
 public:
  explicit UnpackWinograd(const Convolution& c) : s_(c) {}
  void run(const void* const* operands, void* const* results, void*) override {
    const auto* plain = static_cast<const float*>(operands[0]) + s_.plain_at();
    auto* w = static_cast<float*>(results[0]);
    for (int64_t t = 0; t < kTaps * kTaps; ++t)
      for (int64_t c = 0; c < s_.in; ++c)
        for (int64_t o = 0; o < s_.out; ++o)
          w[t / kTaps * s_.g.tap[1] + t % kTaps * s_.g.tap[2] + c * s_.g.w_in + o * s_.g.w_out] =
              plain[(t * s_.in + c) * s_.out + o];
  }
  std::string describe() const override { return "convolution_weights:plain"; }

 private:
  Shape s_;
};

class Winograd final : public LibraryCall {
 public:
  Winograd(const Convolution& c, std::span<const PostOp> ops)
      : s_(c), threads_(s_.threads()), block_(tiles_of_block(s_)) {
    if (!ops.empty() && ops[0].kind == PostOp::Add && is_per_channel(ops[0].operand, c.y.shape))
      has_bias_ = true, ops = ops.subspan(1);
    if (!ops.empty() && ops[0].kind == PostOp::Relu) has_relu_ = true, ops = ops.subspan(1);
    ops_ = broadcast_post_ops(ops, c.y.shape);
  }

  void run(const void* const* operands, void* const* results, void* scratch) override {
    const Run r{static_cast<const float*>(operands[0]),
                static_cast<const float*>(operands[kPackedOperand]),
                {has_bias_ ? static_cast<const float*>(operands[2]) : nullptr, has_relu_},
                operands + (has_bias_ ? 3 : 2),
                static_cast<float*>(results[0])};
    const int64_t tiles = s_.tiles();
    share_out((tiles + block_ - 1) / block_, threads_, [&](int64_t begin, int64_t end, int worker) {
      float* mine = static_cast<float*>(scratch) + worker * scratch_size();
      for (int64_t b = begin; b < end; ++b) compute(r, b * block_, std::min(block_, tiles - b * block_), mine);
    });
  }
  size_t scratch_bytes() const override { return threads_ * scratch_size() * sizeof(float); }
  std::string describe() const override { return "convolution:winograd"; }

 private:
  struct Run {
    const float *x, *packed;
    Finish first;
    const void* const* operands;  // of the other post-ops
    float* y;
  };
  // A tile's place.
  struct Place {
    int64_t n, y, x;
  };
  Place place(int64_t tile) const {
    return {tile / (s_.high() * s_.wide()), tile / s_.wide() % s_.high(), tile % s_.wide()};
  }
  // A row of what is copied: outputs of all tiles of a row, or a patch.
  int64_t border_size() const { return std::max(kParts * s_.in, kTile * kTile * s_.out); }
  int64_t scratch_size() const { return rounded_up(kParts * block_ * (s_.in + s_.out) + border_size(), 16); }

  void compute(const Run& r, int64_t first, int64_t tiles, float* scratch) const {
    float *patches = scratch, *sums = patches + kParts * block_ * s_.in, *border = sums + kParts * block_ * s_.out;
    const int64_t rows = rounded_up(tiles, register_block().rows);
    for (int64_t t = 0; t < tiles; ++t) read(r.x, place(first + t), patches + t * s_.in, border);
    for (int64_t p = 0; p < kParts; ++p) {
      float* part = patches + p * block_ * s_.in;
      std::memset(part + tiles * s_.in, 0, (rows - tiles) * s_.in * sizeof(float));
      multiply(part, r.packed + p * s_.in * s_.out, sums + p * block_ * s_.out, rows);
    }
    for (int64_t t = 0; t < tiles;) {  // tiles side by side, together
      const Place at = place(first + t);
      const int64_t run = std::min(tiles - t, s_.wide() - at.x);
      for (int64_t i = 0; i < run; ++i) write(r, {at.n, at.y, at.x + i}, sums + (t + i) * s_.out, border);
      finish_others(r, at, run);
      t += run;
    }
  }

  void read(const float* x, const Place& at, float* to, float* border) const {
    const int64_t high = s_.g.x.size[1], wide = s_.g.x.size[2], channels = s_.in;
    const int64_t y0 = at.y * kTile - s_.g.padding[1], x0 = at.x * kTile - s_.g.padding[2];
    const int64_t part = block_ * channels;
    x += at.n * s_.image;
    const auto transform = [&](const Pixels<const float>& from) {
      for_host([&](auto set) { Transforms<set()>::patch(from, channels, to, part); });
    };
    if (y0 >= 0 && x0 >= 0 && y0 + kPatch <= high && x0 + kPatch <= wide)
      return transform({x + y0 * s_.row + x0 * s_.pixel, s_.row, s_.pixel});
    std::memset(border, 0, kParts * channels * sizeof(float));
    for (int64_t i = std::max<int64_t>(0, -y0); i < std::min(kPatch, high - y0); ++i)
      for (int64_t j = std::max<int64_t>(0, -x0); j < std::min(kPatch, wide - x0); ++j)
        std::memcpy(border + (i * kPatch + j) * channels, x + (y0 + i) * s_.row + (x0 + j) * s_.pixel,
                    channels * sizeof(float));
    transform({border, kPatch * channels, channels});
  }

  void multiply(const float* patches, const float* weights, float* sums, int64_t rows) const {
    const int64_t segment = 0;
    for (int64_t k = 0; k < s_.in; k += kPanel)
      for (int64_t b = 0; b < s_.blocks(); ++b) {
        const int64_t width = s_.width(b);
        const PatchColumns columns{weights + b * s_.block() * s_.in + k * width, width,
                                   static_cast<int>(width / register_block().lanes<float>())};
        for (int64_t r = 0; r < rows; r += register_block().rows)
          patch_kernel({patches + r * s_.in + k, s_.in, 1, std::span(&segment, 1), std::min(kPanel, s_.in - k)},
                       columns, {sums + r * s_.out + b * s_.block(), s_.out, k == 0});
      }
  }

  float* output(float* y, const Place& at) const {
    return y + ((at.n * s_.g.y.size[1] + at.y * kTile) * s_.g.y.size[2] + at.x * kTile) * s_.out;
  }
  int64_t rows_of(const Place& at) const { return std::min(kTile, s_.g.y.size[1] - at.y * kTile); }

  void write(const Run& r, const Place& at, const float* sums, float* border) const {
    const int64_t part = block_ * s_.out, row = s_.g.y.size[2] * s_.out;
    const int64_t rows = rows_of(at), points = std::min(kTile, s_.g.y.size[2] - at.x * kTile);
    const bool whole = rows == kTile && points == kTile;
    float* y = output(r.y, at);
    const Pixels<float> to{whole ? y : border, whole ? row : kTile * s_.out, s_.out};
    const bool finite = for_host([&](auto set) { return Transforms<set()>::outputs(sums, part, s_.out, to, r.first); });
    if (!whole)
      for (int64_t i = 0; i < rows; ++i)
        std::memcpy(y + i * row, border + i * kTile * s_.out, points * s_.out * sizeof(float));
    if (!finite)
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < points; ++j)
          compute_plainly(r, at.n, at.y * kTile + i, at.x * kTile + j, y + i * row + j * s_.out);
  }

  void compute_plainly(const Run& r, int64_t n, int64_t y, int64_t x, float* to) const {
    const int64_t high = s_.g.x.size[1], wide = s_.g.x.size[2];
    const float* plain = r.packed + s_.plain_at();
    std::fill(to, to + s_.out, 0.0f);
    for (int64_t t = 0; t < kTaps * kTaps; ++t) {
      const int64_t from_y = y - s_.g.padding[1] + t / kTaps, from_x = x - s_.g.padding[2] + t % kTaps;
      if (from_y < 0 || from_x < 0 || from_y >= high || from_x >= wide) continue;
      const float* from = r.x + n * s_.image + from_y * s_.row + from_x * s_.pixel;
      for (int64_t c = 0; c < s_.in; ++c)
        run_for_host<AddScaled>(to, plain + (t * s_.in + c) * s_.out, from[c], s_.out);
    }
    for (int64_t o = 0; o < s_.out; ++o) {
      if (r.first.bias) to[o] += r.first.bias[o];
      if (r.first.relu && to[o] < 0) to[o] = 0;
    }
  }

  void finish_others(const Run& r, const Place& at, int64_t tiles) const {
    if (ops_.empty()) return;
    const int64_t points = std::min(tiles * kTile, s_.g.y.size[2] - at.x * kTile);
    for (int64_t i = 0; i < rows_of(at); ++i)
      finish_points(ops_, r.operands, {output(r.y, at) + i * s_.g.y.size[2] * s_.out, s_.out, points, s_.out},
                    {at.n, 0, {0, at.y * kTile + i, at.x * kTile}});
  }

  Shape s_;
  bool has_bias_ = false, has_relu_ = false;
  std::vector<PostOp> ops_;  // the others
  int threads_;
  int64_t block_;  // tiles
};

}  // namespace

bool is_for_winograd(const Convolution& c) {
  if (c.pass != Pass::Forward || c.groups != 1 || c.w.shape.size() != 4) return false;
  for (const Layout* l : {&c.x, &c.w, &c.y})
    if (l->dtype != ir::DType::F32 || ir::product(l->shape) == 0) return false;
  const auto are = [](const ir::Dims& numbers, int64_t n) {
    return std::ranges::all_of(numbers, [n](ir::Size s) { return s == n; });
  };
  if (c.w.shape[2] != kTaps || c.w.shape[3] != kTaps || !are(c.stride, 1) || !are(c.dilation, 1)) return false;
  const Shape s(c);
  const int64_t lanes = register_block().lanes<float>();
  if (s.in % lanes != 0 || s.out % lanes != 0 || is_little(s.products())) return false;
  // In products that take as long. Each of a tile's numbers is read, added and written, a vector at a time; weights
  // come from memory, as a rule, and are more than plain ones.
  constexpr int64_t kWeight = 100, kFarWeight = 640, kFar = 1 << 18;
  const int64_t number = lanes * 5 / 8;
  const int64_t weights = s.in * s.out;
  const int64_t rows = rounded_up(s.tiles(), register_block().rows);
  const int64_t cost =
      kParts * rows * (weights + number * (s.in + s.out)) + weights * (kParts * weights > kFar ? kFarWeight : kWeight);
  return cost < s.products() / 10 * 9;
}

std::unique_ptr<LibraryCall> make_winograd(const Convolution& c, std::span<const PostOp> post_ops) {
  return std::make_unique<Winograd>(c, post_ops);
}

PackedCall pack_for_winograd(const Convolution& c) {
  auto pack = std::make_shared<PackWinograd>(c);
  PackedCall p{pack, nullptr, pack->bytes(), "winograd", 0, {}, 0};
  for (const ir::Dims* d : {&c.w.shape, &c.w.strides})
    for (int64_t n : *d) p.order += ' ' + std::to_string(n);
  if (packed_like(c.w, c.w)) {
    p.unpacked_bytes = static_cast<size_t>(ir::product(c.w.shape)) * sizeof(float);
    p.unpacking = [c] { return std::make_unique<UnpackWinograd>(c); };
  }
  return p;
}

}  // namespace lazuli::lowering
