#include "lowering/libraries/convolution/depthwise.h"
#include <algorithm>
#include <cstring>
#include <limits>
#include "lowering/libraries/convolution/convolution_geometry.h"
#include "lowering/libraries/convolution/depthwise_kernel.h"
#include "lowering/libraries/convolution/finish_points.h"
#include "lowering/libraries/post_ops.h"
#include "lowering/libraries/product/pack.h"
#include "lowering/threads/crew.h"
#include "lowering/threads/little_work.h"

namespace lazuli::lowering {
namespace {

using onednn::Convolution;
using onednn::Pass;
constexpr int64_t kTile = 16 << 10;       // floats of a tile, which the second cache holds
constexpr int64_t kMostTile = 512 << 10;  // and of one that has a single row of outputs
constexpr int64_t kEnoughTasks = 4;       // for each thread
constexpr int64_t kEnoughSums = 16;       // blocks of channels or slices of their sums

// A few channels of an operand whose dimensions are [N, channels, depth, height, width].
struct Channels {
  explicit Channels(const Layout& l) : batch(l.strides[0]), channel(l.strides[1]), spatial(three(l.strides, 2, 0)) {}
  int64_t at(int64_t n, int64_t first, int64_t z, int64_t y) const {
    return n * batch + first * channel + z * spatial[0] + y * spatial[1];
  }
  int64_t batch, channel;
  Three spatial;
};

// Points as vectors of channels, `wide` floats each: lanes that no channel is for are of no account.
struct Wide {
  int64_t wide, channels;
};
void read_points(const Channels& from, const float* x, const Wide& w, int64_t n, float* to) {
  const bool in_rows = from.spatial[2] == 1 && from.channel != 1 && can_transpose_rows(w.wide) && n >= 8;
  if (!in_rows) return pack_block(Matrix<float>{x, from.channel, from.spatial[2]}, w.channels, n, w.wide, to);
  transpose_rows({x, from.channel, 1}, w.channels, n / 8 * 8, w.wide, to);
  if (n % 8) transpose_rows({x + n - 8, from.channel, 1}, w.channels, 8, w.wide, to + (n - 8) * w.wide);
}
void write_points(const float* points, const Wide& w, int64_t n, const Channels& to, float* y) {
  const int64_t step = to.spatial[2];
  if (to.channel == 1) {
    for (int64_t p = 0; p < n; ++p) std::memcpy(y + p * step, points + p * w.wide, w.channels * sizeof(float));
  } else if (step == 1 && can_transpose_rows(w.wide) && n >= 8) {
    for (int64_t p = 0; p < n; p += 8) {
      p = std::min(p, n - 8);
      transpose_columns(points + p * w.wide, w.wide, w.channels, y + p, to.channel);
    }
  } else {
    for (int64_t p = 0; p < n; ++p)
      for (int64_t c = 0; c < w.channels; ++c) y[p * step + c * to.channel] = points[p * w.wide + c];
  }
}
// Rows of `across` points, one after the other; as one where they lie so.
void read_rows(const Channels& from, const float* x, const Wide& w, int64_t rows, int64_t across, float* to) {
  if (from.spatial[1] == across * from.spatial[2]) return read_points(from, x, w, rows * across, to);
  for (int64_t r = 0; r < rows; ++r) read_points(from, x + r * from.spatial[1], w, across, to + r * across * w.wide);
}
void write_rows(const float* points, const Wide& w, int64_t rows, int64_t across, const Channels& to, float* y) {
  if (to.spatial[1] == across * to.spatial[2]) return write_points(points, w, rows * across, to, y);
  for (int64_t r = 0; r < rows; ++r) write_points(points + r * across * w.wide, w, across, to, y + r * to.spatial[1]);
}
// How many channels are computed together: where they lie side by side, as many as fill lines of the cache.
int64_t width_of_points(const Channels& a, const Channels& b, int64_t channels) {
  const int64_t lanes = depthwise_lanes(),
                most = a.channel == 1 && b.channel == 1 ? std::max<int64_t>(1, 32 / lanes) : 1;
  return std::min(most * lanes, rounded_up(channels, lanes));
}

// Along a dimension, which positions of the image are read for a position of the result: that is the `o / phases`-th of
// phase o % phases. A convolution has one phase; an input gradient as many as strides, of which each reads the taps
// that meet it.
struct Axis {
  Axis(const Geometry& g, Pass pass, int d)
      : in(pass == Pass::InputGrad ? g.y.size[d] : g.x.size[d]),
        out(pass == Pass::InputGrad ? g.x.size[d] : g.y.size[d]),
        step(pass == Pass::InputGrad ? 1 : g.stride[d]),
        phases(pass == Pass::InputGrad ? g.stride[d] : 1) {
    for (int64_t p = 0; p < std::min(phases, out); ++p) {
      taps.push_back((pass == Pass::InputGrad ? g.gradient(d, p) : g.forward(d)).taps);
      for (const PatchAxis::Tap& t : taps.back())
        lowest = std::min(lowest, t.shift), highest = std::max(highest, t.shift);
    }
    if (lowest > highest) lowest = highest = 0;
  }
  // The first position that a result may read, and how many `count` results from this one on.
  int64_t first(int64_t o) const { return o / phases * step + lowest; }
  int64_t reach(int64_t o, int64_t count) const { return first(o + count - 1) - first(o) + highest - lowest + 1; }
  int64_t most_reach(int64_t count) const { return (count + phases - 2) / phases * step + highest - lowest + 1; }

  int64_t in, out, step, phases;
  std::vector<std::vector<PatchAxis::Tap>> taps;  // of each phase that has a position
  int64_t lowest = std::numeric_limits<int64_t>::max(), highest = std::numeric_limits<int64_t>::min();
};

// What bands of rows of the result read of a block of channels, with zeros around the image.
class Tiles {
 public:
  Tiles(const Geometry& g, Pass pass, const Channels& from, const Channels& other)
      : axes_{Axis(g, pass, 0), Axis(g, pass, 1), Axis(g, pass, 2)},
        from_(from),
        channels_(g.x.channels),
        wide_(width_of_points(from, other, channels_)),
        planes_(axes_[0].most_reach(1)),
        width_(axes_[2].most_reach(axes_[2].out)) {}
  const Axis& axis(int d) const { return axes_[d]; }
  void set_rows(int64_t rows) { rows_ = rows, tall_ = axes_[1].most_reach(rows); }
  int64_t rows() const { return rows_; }
  int64_t bands() const { return (axes_[1].out + rows_ - 1) / rows_; }
  int64_t wide() const { return wide_; }
  int64_t blocks() const { return (channels_ + wide_ - 1) / wide_; }
  Wide points_of(int64_t block) const { return {wide_, std::min(wide_, channels_ - block * wide_)}; }
  // Floats between neighbours along each dimension.
  int64_t step(int d) const { return (d == 0 ? tall_ * width_ : d == 1 ? width_ : 1) * wide_; }
  int64_t size() const { return planes_ * step(0); }
  // Where what tap (z, y, x) reads lies behind what the lowest reads.
  int64_t at(int64_t z, int64_t y, int64_t x) const {
    return (z - axes_[0].lowest) * step(0) + (y - axes_[1].lowest) * step(1) + (x - axes_[2].lowest) * step(2);
  }
  // For rows [y, y + rows) of the result's plane z. `spare`: spare_size() floats.
  void copy(const float* image, int64_t n, int64_t block, int64_t z, int64_t y, int64_t rows, float* to,
            float* spare) const {
    const int64_t tall = axes_[1].reach(y, rows), first = axes_[1].first(y);
    const int64_t begin = std::clamp<int64_t>(first, 0, axes_[1].in),
                  end = std::clamp<int64_t>(first + tall, begin, axes_[1].in);
    for (int64_t p = 0; p < planes_; ++p) {
      const int64_t plane = axes_[0].first(z) + p;
      const bool inside = plane >= 0 && plane < axes_[0].in;
      const float* rest = nullptr;  // rows that have been read
      if (inside && reads_at_once() && begin < end) {
        const float* x = image + from_.at(n, block * wide_, plane, begin);
        read_points(from_, x, points_of(block), (end - begin) * axes_[2].in, spare);
        rest = spare;
      }
      for (int64_t r = first; r < first + tall; ++r) {
        float* row = to + p * step(0) + (r - first) * step(1);
        if (!inside || r < begin || r >= end)
          std::fill(row, row + width_ * wide_, 0.0f);
        else
          copy_row(image, n, block, plane, r, rest ? rest + (r - begin) * axes_[2].in * wide_ : nullptr, row);
      }
    }
  }
  int64_t spare_size() const { return reads_at_once() ? tall_ * axes_[2].in * wide_ : 0; }

 private:
  // Rows that are too short to be read well one by one are read as one, where they lie so.
  bool reads_at_once() const {
    return axes_[2].in < 24 && axes_[2].in % 8 && from_.spatial[2] == 1 && from_.channel != 1 &&
           from_.spatial[1] == axes_[2].in;
  }
  // `points`: the row, if it has been read.
  void copy_row(const float* image, int64_t n, int64_t block, int64_t z, int64_t y, const float* points,
                float* to) const {
    const int64_t lowest = axes_[2].lowest;
    const int64_t begin = std::clamp<int64_t>(-lowest, 0, width_),
                  end = std::clamp<int64_t>(axes_[2].in - lowest, begin, width_);
    std::fill(to, to + begin * wide_, 0.0f);
    if (begin < end && points)
      std::memcpy(to + begin * wide_, points + (begin + lowest) * wide_, (end - begin) * wide_ * sizeof(float));
    else if (begin < end)
      read_points(from_, image + from_.at(n, block * wide_, z, y) + (begin + lowest) * from_.spatial[2],
                  points_of(block), end - begin, to + begin * wide_);
    std::fill(to + end * wide_, to + width_ * wide_, 0.0f);
  }

  std::array<Axis, 3> axes_;
  Channels from_;
  int64_t channels_, wide_, planes_, width_, rows_ = 1, tall_ = 1;
};

int64_t products(const Geometry& g) { return g.y.n * g.y.channels * g.y.points() * g.taps(); }
int64_t tap_number(const Geometry& g, int64_t z, int64_t y, int64_t x) {
  return (z * g.kernel[1] + y) * g.kernel[2] + x;
}

// A convolution, or the gradient of one by its input.
class Outputs final : public LibraryCall {
 public:
  Outputs(const Convolution& c, std::span<const PostOp> ops)
      : g_(c),
        pass_(c.pass),
        to_(c.pass == Pass::Forward ? c.y : c.x),
        tiles_(g_, c.pass, Channels(c.pass == Pass::Forward ? c.x : c.y), to_),
        ops_(broadcast_post_ops(ops, c.y.shape)),
        threads_(is_little(products(g_)) ? 1 : crew_size()) {
    const int64_t wanted = threads_ > 1 ? kEnoughTasks * threads_ : 1,
                  wholes = g_.x.n * tiles_.blocks() * tiles_.axis(0).out;
    int64_t rows = tiles_.axis(1).out;
    const auto bands = [&] { return (tiles_.axis(1).out + rows - 1) / rows; };
    for (tiles_.set_rows(rows); rows > 1 && (tiles_.size() > kTile || wholes * bands() < wanted); tiles_.set_rows(rows))
      rows = (rows + 1) / 2;
    // The taps of each phase.
    for (const auto& z : tiles_.axis(0).taps)
      for (const auto& y : tiles_.axis(1).taps)
        for (const auto& x : tiles_.axis(2).taps) {
          std::vector<LaneTap>& taps = taps_.emplace_back();
          for (const PatchAxis::Tap& tz : z)
            for (const PatchAxis::Tap& ty : y)
              for (const PatchAxis::Tap& tx : x)
                taps.push_back({tiles_.at(tz.shift, ty.shift, tx.shift),
                                tap_number(g_, tz.kernel, ty.kernel, tx.kernel) * tiles_.wide()});
        }
  }

  void run(const void* const* operands, void* const* results, void* scratch) override {
    const auto* image = static_cast<const float*>(operands[0]);
    const auto* weights = static_cast<const float*>(operands[1]);
    const int64_t bands = tiles_.bands(), planes = tiles_.axis(0).out, across = tiles_.axis(2).out;
    const int64_t tasks = g_.x.n * tiles_.blocks() * planes * bands;
    share_out(tasks, threads_, [&](int64_t begin, int64_t end, int worker) {
      float* tile = static_cast<float*>(scratch) + worker * scratch_of_one();
      float* kernels = tile + tiles_.size();
      float* points = kernels + g_.taps() * tiles_.wide();
      int64_t of = -1;
      for (int64_t t = begin; t < end; ++t) {
        const int64_t y = t % bands * tiles_.rows(), z = t / bands % planes,
                      block = t / bands / planes % tiles_.blocks();
        const int64_t n = t / bands / planes / tiles_.blocks(), rows = std::min(tiles_.rows(), tiles_.axis(1).out - y);
        if (block != of) read_weights(weights, block, kernels), of = block;
        tiles_.copy(image, n, block, z, y, rows, tile, points);
        const Wide wide = tiles_.points_of(block);
        for (int64_t r = 0; r < rows; ++r) {
          float* row = points + r * across * wide.wide;
          compute_row(tile, kernels, z, y, r, row);
          finish_points(ops_, operands + 2, {row, wide.wide, across, wide.channels},
                        {n, block * wide.wide, {z, y + r, 0}});
        }
        write_rows(points, wide, rows, across, to_,
                   static_cast<float*>(results[0]) + to_.at(n, block * wide.wide, z, y));
      }
    });
  }
  size_t scratch_bytes() const override { return threads_ * scratch_of_one() * sizeof(float); }
  std::string describe() const override {
    return pass_ == Pass::Forward ? "convolution:depthwise" : "convolution_input_grad:depthwise";
  }

 private:
  int64_t scratch_of_one() const {
    const int64_t points = std::max(tiles_.rows() * tiles_.axis(2).out * tiles_.wide(), tiles_.spare_size());
    return rounded_up(tiles_.size() + g_.taps() * tiles_.wide() + points, 16);
  }
  // Tap by tap, a vector each.
  void read_weights(const float* weights, int64_t block, float* to) const {
    const Wide w = tiles_.points_of(block);
    weights += block * w.wide * g_.w_out;
    for (int64_t z = 0; z < g_.kernel[0]; ++z)
      for (int64_t y = 0; y < g_.kernel[1]; ++y)
        for (int64_t x = 0; x < g_.kernel[2]; ++x, to += w.wide) {
          const float* from = weights + z * g_.tap[0] + y * g_.tap[1] + x * g_.tap[2];
          for (int64_t c = 0; c < w.wide; ++c) to[c] = c < w.channels ? from[c * g_.w_out] : 0;
        }
  }
  void compute_row(const float* tile, const float* kernels, int64_t z, int64_t y, int64_t r, float* points) const {
    const Axis &deep = tiles_.axis(0), &down = tiles_.axis(1), &across = tiles_.axis(2);
    const float* from = tile + (down.first(y + r) - down.first(y)) * tiles_.step(1);
    const std::vector<LaneTap>* taps =
        &taps_[(z % deep.phases * std::ssize(down.taps) + (y + r) % down.phases) * std::ssize(across.taps)];
    for (int64_t lane = 0; lane < tiles_.wide(); lane += depthwise_lanes())
      for (int64_t x = 0; x < std::ssize(across.taps); ++x)
        lane_row({from + lane, kernels + lane, across.step * tiles_.step(2), points + x * tiles_.wide() + lane,
                  across.phases * tiles_.wide(), (across.out - x + across.phases - 1) / across.phases},
                 taps[x]);
  }

  Geometry g_;
  Pass pass_;
  Channels to_;
  Tiles tiles_;
  std::vector<PostOp> ops_;
  int threads_;
  std::vector<std::vector<LaneTap>> taps_;
};

// Sums over all outputs of a channel, in slices that follow from the sizes alone.
class WeightGradient final : public LibraryCall {
 public:
  explicit WeightGradient(const Convolution& c)
      : g_(c),
        swapped_(c.swapped),
        gradient_(c.y),
        tiles_(g_, c.pass, Channels(c.x), gradient_),
        threads_(is_little(products(g_)) ? 1 : crew_size()) {
    int64_t rows = tiles_.axis(1).out;
    for (tiles_.set_rows(rows); rows > 1 && tiles_.size() + points(rows) > kTile; tiles_.set_rows(rows))
      rows = (rows + 1) / 2;
    slices_ = std::clamp<int64_t>((kEnoughSums + tiles_.blocks() - 1) / tiles_.blocks(), 1, parts());
  }

  void run(const void* const* operands, void* const* results, void* scratch) override {
    const auto* gy = static_cast<const float*>(operands[swapped_ ? 1 : 0]);
    const auto* x = static_cast<const float*>(operands[swapped_ ? 0 : 1]);
    auto* sums = static_cast<float*>(scratch);
    share_out(tiles_.blocks() * slices_, threads_, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t t = begin; t < end; ++t)
        add_up(gy, x, t / slices_, t % slices_, sums + t * sums_size(),
               sums + tiles_.blocks() * slices_ * sums_size() + worker * scratch_of_one());
    });
    for (int64_t block = 0; block < tiles_.blocks(); ++block)
      write(sums + block * slices_ * sums_size(), block, static_cast<float*>(results[0]));
  }
  size_t scratch_bytes() const override {
    return (tiles_.blocks() * slices_ * sums_size() + threads_ * scratch_of_one()) * sizeof(float);
  }
  std::string describe() const override { return "convolution_weight_grad:depthwise"; }

 private:
  int64_t parts() const { return g_.y.n * g_.y.size[0] * tiles_.bands(); }
  int64_t points(int64_t rows) const { return rows * g_.y.size[2] * tiles_.wide(); }
  int64_t sums_size() const { return g_.taps() * tiles_.wide(); }
  int64_t scratch_of_one() const {
    return rounded_up(tiles_.size() + std::max(points(tiles_.rows()), tiles_.spare_size()), 16);
  }

  void add_up(const float* gy, const float* x, int64_t block, int64_t slice, float* sums, float* tile) const {
    const int64_t bands = tiles_.bands(), across = g_.y.size[2];
    const Wide wide = tiles_.points_of(block);
    float* gradient = tile + tiles_.size();
    std::fill(sums, sums + sums_size(), 0.0f);
    const LaneGrid grid{g_.kernel[1], g_.kernel[2], g_.dilation[1] * tiles_.step(1), g_.dilation[2] * tiles_.step(2),
                        wide.wide};
    for (int64_t part = parts() * slice / slices_; part < parts() * (slice + 1) / slices_; ++part) {
      const int64_t y = part % bands * tiles_.rows(), z = part / bands % g_.y.size[0], n = part / bands / g_.y.size[0];
      const int64_t rows = std::min(tiles_.rows(), g_.y.size[1] - y);
      tiles_.copy(x, n, block, z, y, rows, tile, gradient);
      read_rows(gradient_, gy + gradient_.at(n, block * wide.wide, z, y), wide, rows, across, gradient);
      for (int64_t plane = 0; plane < g_.kernel[0]; ++plane)
        for (int64_t lane = 0; lane < wide.wide; lane += depthwise_lanes())
          lane_gradient({tile + plane * g_.dilation[0] * tiles_.step(0) + lane, g_.stride[1] * tiles_.step(1),
                         g_.stride[2] * tiles_.step(2), gradient + lane, wide.wide, rows, across,
                         sums + tap_number(g_, plane, 0, 0) * wide.wide + lane},
                        grid);
    }
  }
  void write(const float* sums, int64_t block, float* result) const {
    const Wide w = tiles_.points_of(block);
    result += block * w.wide * g_.w_out;
    for (int64_t z = 0; z < g_.kernel[0]; ++z)
      for (int64_t y = 0; y < g_.kernel[1]; ++y)
        for (int64_t x = 0; x < g_.kernel[2]; ++x, sums += w.wide)
          for (int64_t c = 0; c < w.channels; ++c) {
            float sum = sums[c];
            for (int64_t s = 1; s < slices_; ++s) sum += sums[s * sums_size() + c];
            result[c * g_.w_out + z * g_.tap[0] + y * g_.tap[1] + x * g_.tap[2]] = sum;
          }
  }

  Geometry g_;
  bool swapped_;
  Channels gradient_;
  Tiles tiles_;
  int threads_;
  int64_t slices_;
};

}  // namespace

bool serves_depthwise(const Convolution& c) {
  for (const Layout* l : {&c.x, &c.w, &c.y})
    if (l->dtype != ir::DType::F32 || ir::product(l->shape) == 0) return false;
  if (c.groups == 1 || c.x.shape[1] != c.groups || c.y.shape[1] != c.groups) return false;
  Tiles tiles(Geometry(c), c.pass, Channels(c.x), Channels(c.y));
  tiles.set_rows(1);
  return tiles.size() <= kMostTile;
}

std::unique_ptr<LibraryCall> make_depthwise(const Convolution& c, std::span<const PostOp> post_ops) {
  if (c.pass == Pass::WeightGrad) return std::make_unique<WeightGradient>(c);
  return std::make_unique<Outputs>(c, post_ops);
}

}  // namespace lazuli::lowering
