#include "lowering/libraries/convolution/implicit_gemm.h"
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
constexpr int64_t kDepth = 256;           // of a panel of weights, which stays in the first cache
constexpr int64_t kTile = 16 << 10;       // floats of an image's tile, in the second, and
constexpr int64_t kMostTile = 256 << 10;  // floats of what one row of outputs reads; whole rows are copied
constexpr int64_t kMostPhases = 16;       // of an input gradient, each a product of its own
constexpr int64_t kSums = 32 << 10;       // of its sums
constexpr int64_t kMostSlots = 1024;      // of a tile
constexpr int64_t kFew = 16;              // channels whose weights are turned together
constexpr int64_t kEnoughSlots = 192;     // for a tile of several images
constexpr int64_t kEnoughTasks = 4;       // for each thread

int64_t kernel_rows() { return register_block().rows; }
int64_t kernel_lanes() { return register_block().lanes<float>(); }

// Columns in blocks of up to two vectors.
struct Columns {
  explicit Columns(int64_t n) : count(n), block(2 * kernel_lanes()), padded(rounded_up(n, kernel_lanes())) {}
  int64_t blocks() const { return (count + block - 1) / block; }
  int64_t width(int64_t b) const { return std::min(block, padded - b * block); }
  int vectors(int64_t b) const { return static_cast<int>(width(b) / kernel_lanes()); }
  int64_t count, block, padded;
};

// Element (out, in, tap) of the weights.
struct Weights {
  int64_t out, in;
  Three tap;
  int64_t at(const Patches::Place& p) const { return p.depth * tap[0] + p.height * tap[1] + p.width * tap[2]; }
};

// Computes the outputs of some axes from an image: a convolution, or the part of an input gradient that reads the same
// taps.
class PatchProduct {
 public:
  // Where outputs go: position i of an axis at first + i * step of `image`.
  struct Target {
    Image image;
    Three first, step;
  };
  PatchProduct(const PatchAxes& axes, const Image& from, const Target& to, const Weights& weights, int threads)
      : axes_(axes),
        patches_(axes, from.channels),
        columns_(to.image.channels),
        from_(from),
        to_(to),
        weights_(weights),
        plain_(patches_.lie_in_image()) {
    cut(threads);
    for (int64_t length = patches_.length(), segments = std::ssize(patches_.segments()), s = 0; s < segments;) {
      const int64_t few = std::clamp(kDepth / length, int64_t{1}, segments - s), parts = (length + kDepth - 1) / kDepth;
      for (int64_t p = 0; p < parts; ++p)
        panels_.push_back({s, few, length * p / parts, length * (p + 1) / parts - length * p / parts});
      s += few;
    }
    for (Panel& p : panels_) p.first = depth_, depth_ += p.depth();
  }

  int64_t packed_size() const { return depth_ * columns_.padded; }
  int64_t scratch_size() const {
    return rounded_up(images_ * patches_.tile_size(), 16) +
           rounded_up((images_ * sums_of_image() + kernel_rows()) * stride(), 16);
  }

  void pack(const float* weights, float* to, int threads) const {
    // All taps of a few channels together: they lie side by side, as a rule.
    const int64_t channels = from_.channels, parts = (channels + kFew - 1) / kFew;
    share_out(columns_.blocks() * parts, threads, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % parts * kFew, few = std::min(kFew, channels - first);
        for (int64_t tap = 0; tap * channels < depth_; ++tap) {
          const int64_t per_segment = patches_.taps_of_segment();
          const float* w = weights + weights_.at(patches_.weights_of(tap / per_segment, tap % per_segment));
          pack_part(w + first * weights_.in, tap * channels + first, few, i / parts, to);
        }
      }
    });
  }
  template <class Finish>
  void run(const float* image, const float* packed, float* result, float* scratch, int threads, Finish finish) const {
    share_out(tasks(), threads, [&](int64_t begin, int64_t end, int worker) {
      float* copies = scratch + worker * scratch_size();
      float* sums = copies + rounded_up(images_ * patches_.tile_size(), 16);
      const float* tiles = nullptr;
      int64_t of = -1;
      for (int64_t t = begin; t < end; ++t) {
        const int64_t place = t / chunks_, chunk = t % chunks_;
        const int64_t y = place % bands_ * patches_.rows(), z = place / bands_ % axes_[0].out;
        const int64_t n = place / bands_ / axes_[0].out * images_, images = std::min(images_, from_.n - n);
        const int64_t rows = std::min(patches_.rows(), axes_[1].out - y), behind = (kernel_rows() - 1) * from_.channels;
        if (place != of) tiles = patches_.tiles(image, from_.n, {n, images, z, y, rows}, behind, copies), of = place;
        compute(tiles, packed, sums, images, rows, chunk);
        for (int64_t i = 0; i < images; ++i)
          for (int64_t r = 0; r < rows; ++r)
            write(sums + (i * sums_of_image() + r * sums_of_row()) * stride(), result, n + i, {z, y + r, 0}, chunk,
                  finish);
      }
    });
  }

 private:
  struct Panel {
    int64_t segment, segments, from, length, first = 0;
    int64_t depth() const { return segments * length; }
  };

  int64_t tasks() const { return (from_.n + images_ - 1) / images_ * axes_[0].out * bands_ * chunks_; }
  int64_t stride() const { return std::min(chunk_ * columns_.block, columns_.padded); }
  // Slots between the sums of two rows, and of two images.
  int64_t sums_of_row() const { return by_row_ ? rounded_up(axes_[2].out, kernel_rows()) : patches_.slots_of_row(); }
  int64_t sums_of_image() const { return patches_.rows() * sums_of_row() + (plain_ ? 0 : kernel_rows()); }

  // Tiles as large as caches allow, but so many that each thread has several: then of fewer columns, too.
  void cut(int threads) {
    chunk_ = columns_.blocks(), chunks_ = 1;
    const int64_t row = patches_.slots_of_row(), planes = from_.n * axes_[0].out;
    const int64_t copied = row * patches_.slot() * axes_[1].step * std::ssize(axes_[0].taps);
    int64_t rows = std::min({kMostSlots / row, kSums / (row * columns_.padded), kTile / copied, axes_[1].out});
    rows = std::max<int64_t>(rows, 1);
    const int64_t wanted = threads > 1 ? kEnoughTasks * threads : 1;
    const auto bands = [&] { return (axes_[1].out + rows - 1) / rows; };
    while (planes * bands() < wanted && rows > 1 && rows * row > 4 * kernel_rows()) rows = (rows + 1) / 2;
    bands_ = bands();
    rows = (axes_[1].out + bands_ - 1) / bands_;
    bands_ = bands();
    if (planes * bands_ < threads) {
      chunk_ = std::max<int64_t>(1, columns_.blocks() * planes * bands_ / threads);
      chunks_ = (columns_.blocks() + chunk_ - 1) / chunk_;
    }
    patches_.set_rows(rows);
    // Several small images meet each panel of weights together.
    if (bands_ == 1 && axes_[0].out == 1)
      images_ = std::clamp<int64_t>(std::min(kEnoughSlots / (rows * row), from_.n / wanted), 1, from_.n);
    const auto blocks = [](int64_t slots) { return (slots + kernel_rows() - 1) / kernel_rows(); };
    by_row_ = !plain_ && rows * blocks(axes_[2].out) <= blocks((rows - 1) * row + axes_[2].out);
  }

  template <class T>
  T* panel(T* packed, const Panel& p, int64_t block) const {
    return packed + p.first * columns_.padded + block * columns_.block * p.depth();
  }
  // Elements k, k + 1, ... of a block of columns.
  void pack_part(const float* w, int64_t k, int64_t n, int64_t block, float* packed) const {
    auto p = std::ranges::upper_bound(panels_, k, {}, &Panel::first) - 1;
    const int64_t width = columns_.width(block), first = block * columns_.block,
                  there = std::min(width, columns_.count - first);
    w += first * weights_.out;
    while (n > 0) {
      const int64_t run = std::min(n, p->first + p->depth() - k);
      float* to = panel(packed, *p, block) + (k - p->first) * width;
      for (int64_t j = 0; j < width; ++j)
        for (int64_t i = 0; i < run; ++i) to[i * width + j] = j < there ? w[i * weights_.in + j * weights_.out] : 0;
      w += run * weights_.in, k += run, n -= run, ++p;
    }
  }

  // f(where in the tile, of how many slots, where among the sums), for patches that lie one after the other.
  template <class F>
  void each_run(int64_t images, int64_t rows, F f) const {
    const int64_t slots = patches_.slots_of_row(), across = axes_[2].out;
    if (plain_) return f(int64_t{0}, images * rows * across, int64_t{0});
    for (int64_t i = 0; i < images; ++i)
      if (!by_row_)
        f(i * patches_.tile_size(), (rows - 1) * slots + across, i * sums_of_image());
      else
        for (int64_t r = 0; r < rows; ++r)
          f(i * patches_.tile_size() + r * slots * patches_.slot(), across, i * sums_of_image() + r * sums_of_row());
  }

  void compute(const float* tile, const float* packed, float* sums, int64_t images, int64_t rows, int64_t chunk) const {
    const int64_t first = chunk * chunk_, last = std::min(first + chunk_, columns_.blocks());
    for (const Panel& p : panels_)
      for (int64_t b = first; b < last; ++b) {
        const PatchColumns columns{panel(packed, p, b), columns_.width(b), columns_.vectors(b)};
        const auto segments = std::span(patches_.segments()).subspan(p.segment, p.segments);
        each_run(images, rows, [&](int64_t at, int64_t slots, int64_t to) {
          PatchRows patches{tile + at + p.from, patches_.slot(), 1, segments, p.length};
          PatchSums block{sums + to * stride() + (b - first) * columns_.block, stride(), p.first == 0};
          for (int64_t s = 0; s < slots; s += kernel_rows()) {
            patch_kernel(patches, columns, block);
            patches.data += kernel_rows() * patches.row, block.data += kernel_rows() * block.stride;
          }
        });
      }
  }

  // A row of outputs, from `at` on.
  template <class Finish>
  void write(float* sums, float* result, int64_t n, Three at, int64_t chunk, Finish finish) const {
    const Three& size = to_.image.size;
    for (int d = 0; d < 3; ++d) at[d] = to_.first[d] + at[d] * to_.step[d];
    const int64_t channels = columns_.count, first = chunk * chunk_ * columns_.block;
    const int64_t wide = std::min(chunk_ * columns_.block, channels - first), points = axes_[2].out;
    finish(sums, stride(), points, n, at, first, wide);
    float* to = result + (((n * size[0] + at[0]) * size[1] + at[1]) * size[2] + at[2]) * channels + first;
    if (to_.step[2] == 1 && wide == channels && stride() == channels) {
      std::memcpy(to, sums, points * channels * sizeof(float));
      return;
    }
    for (int64_t p = 0; p < points; ++p)
      std::memcpy(to + p * to_.step[2] * channels, sums + p * stride(), wide * sizeof(float));
  }

  PatchAxes axes_;
  Patches patches_;
  Columns columns_;
  Image from_;
  Target to_;
  Weights weights_;
  bool plain_;           // the patches lie in the image
  bool by_row_ = false;  // blocks of patches end with a row
  std::vector<Panel> panels_;
  int64_t depth_ = 0;
  // Blocks of columns of a task, tasks of a tile, bands of an image, images of a tile.
  int64_t chunk_ = 1, chunks_ = 1, bands_ = 1, images_ = 1;
};

int threads_for(const Geometry& g) {
  return is_little(g.y.n * g.y.points() * g.y.channels * g.x.channels * g.taps()) ? 1 : crew_size();
}
PatchProduct forward_product(const Geometry& g, int threads) {
  return {g.forward(), g.x, {g.y, {0, 0, 0}, {1, 1, 1}}, {g.w_out, g.w_in, g.tap}, threads};
}

class PackWeights final : public LibraryCall {
 public:
  explicit PackWeights(const Geometry& g) : threads_(threads_for(g)), product_(forward_product(g, threads_)) {}
  void run(const void* const* operands, void* const* results, void*) override {
    product_.pack(static_cast<const float*>(operands[0]), static_cast<float*>(results[0]), threads_);
  }
  size_t bytes() const { return product_.packed_size() * sizeof(float); }
  std::string describe() const override { return "convolution_weights:packed"; }

 private:
  int threads_;
  PatchProduct product_;
};

class ForwardConvolution final : public LibraryCall {
 public:
  ForwardConvolution(const Convolution& c, std::span<const PostOp> ops, bool takes_packed)
      : g_(c),
        ops_(broadcast_post_ops(ops, c.y.shape)),
        threads_(threads_for(g_)),
        product_(forward_product(g_, threads_)),
        takes_packed_(takes_packed) {}

  void run(const void* const* operands, void* const* results, void* scratch) override {
    auto* rest = static_cast<float*>(scratch);
    auto* packed = static_cast<const float*>(operands[kPackedOperand]);
    if (!takes_packed_) {
      product_.pack(packed, rest, threads_);
      packed = rest;
      rest += rounded_up(product_.packed_size(), 16);
    }
    const auto finish = [&](float* sums, int64_t stride, int64_t points, int64_t n, const Three& at, int64_t first,
                            int64_t wide) {
      finish_points(ops_, operands + 2, {sums, stride, points, wide}, {n, first, at});
    };
    product_.run(static_cast<const float*>(operands[0]), packed, static_cast<float*>(results[0]), rest, threads_,
                 finish);
  }
  size_t scratch_bytes() const override {
    const int64_t packed = takes_packed_ ? 0 : rounded_up(product_.packed_size(), 16);
    return (packed + threads_ * product_.scratch_size()) * sizeof(float);
  }
  std::string describe() const override { return "convolution:implicit_gemm"; }

 private:
  Geometry g_;
  std::vector<PostOp> ops_;
  int threads_;
  PatchProduct product_;
  bool takes_packed_;
};

class InputGradient final : public LibraryCall {
 public:
  explicit InputGradient(const Convolution& c) : g_(c), threads_(threads_for(g_)) {
    Three phase;
    for (phase[0] = 0; phase[0] < std::min(g_.stride[0], g_.x.size[0]); ++phase[0])
      for (phase[1] = 0; phase[1] < std::min(g_.stride[1], g_.x.size[1]); ++phase[1])
        for (phase[2] = 0; phase[2] < std::min(g_.stride[2], g_.x.size[2]); ++phase[2]) add(phase);
  }
  void run(const void* const* operands, void* const* results, void* scratch) override {
    float* result = static_cast<float*>(results[0]);
    if (!covers_) std::memset(result, 0, g_.x.n * g_.x.points() * g_.x.channels * sizeof(float));
    float* packed = static_cast<float*>(scratch);
    float* rest = packed + packed_size();
    for (const PatchProduct& p : products_) {
      p.pack(static_cast<const float*>(operands[1]), packed, threads_);
      p.run(static_cast<const float*>(operands[0]), packed, result, rest, threads_, [](auto&&...) {});
    }
  }
  size_t scratch_bytes() const override {
    int64_t most = 0;
    for (const PatchProduct& p : products_) most = std::max(most, p.scratch_size());
    return (packed_size() + threads_ * most) * sizeof(float);
  }
  std::string describe() const override { return "convolution_input_grad:implicit_gemm"; }

 private:
  void add(const Three& phase) {
    PatchAxes axes;
    for (int d = 0; d < 3; ++d) {
      axes[d] = g_.gradient(d, phase[d]);
      if (axes[d].taps.empty()) {  // nobody read these inputs
        covers_ = false;
        return;
      }
    }
    products_.emplace_back(axes, g_.y, PatchProduct::Target{g_.x, phase, g_.stride}, Weights{g_.w_in, g_.w_out, g_.tap},
                           threads_);
  }
  int64_t packed_size() const {
    int64_t most = 0;
    for (const PatchProduct& p : products_) most = std::max(most, rounded_up(p.packed_size(), 16));
    return most;
  }

  Geometry g_;
  int threads_;
  std::vector<PatchProduct> products_;  // for each phase of the stride
  bool covers_ = true;
};

// Sums over all outputs: rows are the elements of a patch, columns the channels of the outputs.
class WeightGradient final : public LibraryCall {
 public:
  explicit WeightGradient(const Convolution& c)
      : g_(c),
        swapped_(c.swapped),
        threads_(threads_for(g_)),
        patches_(g_.forward(), g_.x.channels),
        columns_(g_.y.channels),
        plain_(patches_.lie_in_image()) {
    const int64_t tall = g_.y.size[1], row = g_.y.size[2];
    const int64_t copied = patches_.slots_of_row() * patches_.slot() * g_.stride[1];
    patches_.set_rows(std::clamp(std::min(kTile / copied, kEnoughDepth / row), int64_t{1}, tall));
    // Several small images are added to each sum together.
    if (patches_.rows() == tall && g_.y.size[0] == 1)
      images_ = std::clamp(kEnoughDepth / (tall * row), int64_t{1}, g_.y.n);
    groups_ = groups_of_segment() * std::ssize(patches_.segments());
    // Units are alike: columns first, then rows.
    const int64_t wanted = threads_ > 1 ? 2 * threads_ : 1, across = std::min(columns_.blocks(), wanted);
    unit_columns_ = (columns_.blocks() + across - 1) / across;
    units_across_ = (columns_.blocks() + unit_columns_ - 1) / unit_columns_;
    const int64_t down = std::min(groups_, (wanted + units_across_ - 1) / units_across_);
    unit_groups_ = (groups_ + down - 1) / down;
    units_down_ = (groups_ + unit_groups_ - 1) / unit_groups_;
  }
  void run(const void* const* operands, void* const* results, void* scratch) override {
    const auto* gy = static_cast<const float*>(operands[swapped_ ? 1 : 0]);
    const auto* x = static_cast<const float*>(operands[swapped_ ? 0 : 1]);
    auto* sums = static_cast<float*>(scratch);
    share_out(units_across_ * units_down_, threads_, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t u = begin; u < end; ++u)
        run_unit(gy, x, sums, sums + sums_size() + worker * scratch_of_one(), u % units_across_, u / units_across_);
    });
    const int64_t parts = (g_.x.channels + kFew - 1) / kFew;
    share_out(columns_.blocks() * parts, threads_, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) write(sums, static_cast<float*>(results[0]), i / parts, i % parts * kFew);
    });
  }
  size_t scratch_bytes() const override { return (sums_size() + threads_ * scratch_of_one()) * sizeof(float); }
  std::string describe() const override { return "convolution_weight_grad:implicit_gemm"; }

 private:
  static constexpr int64_t kEnoughDepth = 384;  // of a sum, before it is written
  static constexpr int64_t kFewGroups = 4;      // that read the columns where they lie

  int64_t sums_size() const { return rounded_up(groups_ * kernel_rows() * columns_.padded, 16); }
  int64_t most_points() const { return images_ * patches_.rows() * g_.y.size[2]; }
  int64_t most_lines() const { return images_ * patches_.rows(); }
  // All rows of one block of columns lie together.
  template <class T>
  T* sums_of(T* sums, int64_t block) const {
    return sums + groups_ * kernel_rows() * block * columns_.block;
  }
  bool is_whole(int64_t block) const { return (block + 1) * columns_.block <= columns_.count; }
  int64_t tile_size() const { return rounded_up(images_ * patches_.tile_size(), 16); }
  int64_t packed_size() const { return rounded_up(most_points() * columns_.block, 16); }
  int64_t scratch_of_one() const {
    return tile_size() + packed_size() +
           rounded_up(most_lines() * static_cast<int64_t>(sizeof(int64_t) / sizeof(float)), 16);
  }
  int64_t groups_of_segment() const { return (patches_.length() + kernel_rows() - 1) / kernel_rows(); }
  int64_t start_of(int64_t group) const {
    return patches_.segments()[group / groups_of_segment()] + group % groups_of_segment() * kernel_rows();
  }

  template <class F>
  void each_part(F f) const {
    for (int64_t n = 0; n < g_.y.n; n += images_)
      for (int64_t z = 0; z < g_.y.size[0]; ++z)
        for (int64_t y = 0; y < g_.y.size[1]; y += patches_.rows())
          f(Patches::Part{n, std::min(images_, g_.y.n - n), z, y, std::min(patches_.rows(), g_.y.size[1] - y)});
  }

  void run_unit(const float* gy, const float* x, float* sums, float* scratch, int64_t across, int64_t down) const {
    const int64_t first = down * unit_groups_, last = std::min(first + unit_groups_, groups_);
    const int64_t first_block = across * unit_columns_,
                  last_block = std::min(first_block + unit_columns_, columns_.blocks());
    float *copies = scratch, *packed = copies + tile_size();
    auto* lines = reinterpret_cast<int64_t*>(packed + packed_size());
    bool begins = true;
    each_part([&](const Patches::Part& p) {
      const int64_t width = g_.y.size[2], points = p.images * p.rows * width;
      const float* tile = patches_.tiles(x, g_.x.n, p, kernel_rows() - 1, copies);
      for (int64_t i = 0, l = 0; i < p.images; ++i)
        for (int64_t r = 0; r < p.rows; ++r)
          lines[l++] = i * patches_.tile_size() + r * patches_.slots_of_row() * patches_.slot();
      const auto segments =
          plain_ ? std::span<const int64_t>(lines, 1) : std::span<const int64_t>(lines, p.images * p.rows);
      const int64_t length = plain_ ? points : width;
      const float* from = gy + (((p.n * g_.y.size[0] + p.depth) * g_.y.size[1] + p.first) * width) * g_.y.channels;
      for (int64_t b = first_block; b < last_block; ++b) {
        PatchColumns columns{from + b * columns_.block, g_.y.channels, columns_.vectors(b)};
        if (!is_whole(b) || last - first > kFewGroups)
          columns = {packed, pack(columns.data, points, b, packed), columns.vectors};
        for (int64_t g = first; g < last; ++g)
          patch_kernel({tile + start_of(g), 1, patches_.slot(), segments, length}, columns,
                       {sums_of(sums, b) + g * kernel_rows() * columns_.width(b), columns_.width(b), begins});
      }
      begins = false;
    });
  }
  // Where columns are fewer than vectors take, or are read often. Returns their stride.
  int64_t pack(const float* from, int64_t points, int64_t block, float* to) const {
    const int64_t width = columns_.width(block), n = std::min(width, columns_.count - block * columns_.block);
    for (int64_t p = 0; p < points; ++p) {
      std::memcpy(to + p * width, from + p * columns_.count, n * sizeof(float));
      std::fill(to + p * width + n, to + (p + 1) * width, 0.0f);
    }
    return width;
  }
  // A few channels' weights of a block of columns, which lie side by side, as a rule.
  void write(const float* sums, float* result, int64_t block, int64_t channel) const {
    const int64_t first = block * columns_.block, n = std::min(columns_.block, columns_.count - first);
    const int64_t channels = std::min(kFew, g_.x.channels - channel), taps = patches_.taps_of_segment();
    const Weights weights{g_.w_out, g_.w_in, g_.tap};
    for (int64_t s = 0; s < std::ssize(patches_.segments()); ++s)
      for (int64_t tap = 0; tap < taps; ++tap) {
        const int64_t row = s * groups_of_segment() * kernel_rows() + tap * g_.x.channels + channel;
        const float* from = sums_of(sums, block) + row * columns_.width(block);
        float* to = result + weights.at(patches_.weights_of(s, tap)) + channel * weights.in + first * weights.out;
        for (int64_t c = 0; c < channels; ++c)
          for (int64_t o = 0; o < n; ++o) to[o * weights.out + c * weights.in] = from[c * columns_.width(block) + o];
      }
  }

  Geometry g_;
  bool swapped_;
  int threads_;
  Patches patches_;
  Columns columns_;
  bool plain_;
  int64_t images_ = 1;  // of a part
  int64_t groups_, unit_columns_, units_across_, unit_groups_, units_down_;
};

}  // namespace

bool serves_implicit_gemm(const Convolution& c) {
  for (const Layout* l : {&c.x, &c.w, &c.y})
    if (l->dtype != ir::DType::F32 || ir::product(l->shape) == 0) return false;
  if (c.groups != 1 || (c.pass == Pass::InputGrad && ir::product(c.stride) > kMostPhases)) return false;
  const Geometry g(c);
  const Image& read = c.pass == Pass::InputGrad ? g.y : g.x;
  const int64_t tall = g.kernel[0] * ((g.kernel[1] - 1) * g.dilation[1] + 1);
  return tall * (read.size[2] + 2 * g.padding[2]) * read.channels <= kMostTile;
}

std::unique_ptr<LibraryCall> make_implicit_gemm(const Convolution& c, std::span<const PostOp> post_ops,
                                                bool takes_packed) {
  switch (c.pass) {
    case Pass::Forward:
      return std::make_unique<ForwardConvolution>(c, post_ops, takes_packed);
    case Pass::InputGrad:
      return std::make_unique<InputGradient>(c);
    case Pass::WeightGrad:
      return std::make_unique<WeightGradient>(c);
  }
  return nullptr;
}

PackedCall pack_for_implicit_gemm(const Convolution& c) {
  auto pack = std::make_shared<PackWeights>(Geometry(c));
  PackedCall p{pack, nullptr, pack->bytes(), "implicit_gemm"};
  for (const ir::Dims* d : {&c.w.shape, &c.w.strides})
    for (int64_t n : *d) p.order += ' ' + std::to_string(n);
  p.order += c.dilation.back() == 1 ? " joined" : "";
  return p;
}

}  // namespace lazuli::lowering
