#include "lowering/libraries/convolution/patches.h"
#include <algorithm>
#include <cstring>

namespace lazuli::lowering {
namespace {

int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
int64_t modulo(int64_t a, int64_t b) { return a - floor_div(a, b) * b; }

void zero(float* to, int64_t n) { std::memset(to, 0, n * sizeof(float)); }

}  // namespace

Patches::Patches(const PatchAxes& axes, int64_t channels) : axes_(axes), channels_(channels) {
  const auto& [depth, height, across] = axes_;
  const bool side_by_side = std::ranges::adjacent_find(across.taps, [](const auto& a, const auto& b) {
                              return b.shift != a.shift + 1;
                            }) == across.taps.end();
  run_ = side_by_side ? static_cast<int64_t>(across.taps.size()) : 1;
  const int64_t reach = (across.out - 1) * across.step + across.taps.back().shift - across.taps.front().shift + 1;
  width_ = (reach + across.step - 1) / across.step * across.step;
  for (const PatchAxis::Tap& t : height.taps)
    if (const int64_t phase = modulo(t.shift, height.step); std::ranges::find(phases_, phase) == phases_.end())
      phases_.push_back(phase);
  lowest_ = floor_div(height.taps.front().shift, height.step),
  highest_ = floor_div(height.taps.back().shift, height.step);
  set_rows(1);
}

int64_t Patches::phase_of(int64_t shift) const {
  return std::ranges::find(phases_, modulo(shift, axes_[1].step)) - phases_.begin();
}

void Patches::set_rows(int64_t rows) {
  rows_ = rows;
  segments_.clear();
  const auto& [depth, height, across] = axes_;
  const int64_t tall = rows + highest_ - lowest_, phases = static_cast<int64_t>(phases_.size());
  for (size_t d = 0; d < depth.taps.size(); ++d)
    for (const PatchAxis::Tap& t : height.taps) {
      const int64_t row =
          (static_cast<int64_t>(d) * phases + phase_of(t.shift)) * tall + floor_div(t.shift, height.step) - lowest_;
      for (size_t w = 0; w < across.taps.size(); w += run_)
        segments_.push_back((row * width_ + across.taps[w].shift - across.taps[0].shift) * channels_);
    }
}

bool Patches::lie_in_image() const {
  return std::ranges::all_of(axes_, [](const PatchAxis& a) {
    return a.step == 1 && a.in == a.out && a.taps.size() == 1 && a.taps[0].shift == 0;
  });
}

int64_t Patches::tile_size() const {
  const int64_t tall = rows_ + highest_ - lowest_;
  const int64_t rows = static_cast<int64_t>(axes_[0].taps.size() * phases_.size()) * tall;
  return rows * width_ * channels_ + kMore * slot() + length();
}

const float* Patches::tiles(const float* x, int64_t count, const Part& part, int64_t behind, float* copies) const {
  const auto& [depth, height, across] = axes_;
  const int64_t line = across.in * channels_, image = depth.in * height.in * line;
  if (!lie_in_image()) {
    for (int64_t i = 0; i < part.images; ++i)
      copy(x + (part.n + i) * image, part.depth, part.first, copies + i * tile_size());
    return copies;
  }
  const int64_t begin = part.n * image + (part.depth * height.in + part.first) * line,
                whole = part.images * part.rows * line;
  if (count * image - begin - whole >= behind) return x + begin;
  std::memcpy(copies, x + begin, whole * sizeof(float));
  zero(copies + whole, kMore * channels_);
  return copies;
}

void Patches::copy(const float* image, int64_t depth, int64_t first, float* tile) const {
  const auto& [planes, height, across] = axes_;
  const int64_t tall = rows_ + highest_ - lowest_, leftmost = across.taps[0].shift;
  const int64_t left = std::clamp<int64_t>(-leftmost, 0, width_), from = std::max<int64_t>(leftmost, 0);
  const int64_t inside = std::clamp<int64_t>(across.in - from, 0, width_ - left), right = width_ - left - inside;
  for (const PatchAxis::Tap& t : planes.taps) {
    const int64_t z = depth * planes.step + t.shift;
    for (const int64_t phase : phases_)
      for (int64_t j = 0; j < tall; ++j, tile += width_ * channels_) {
        const int64_t y = (first + j + lowest_) * height.step + phase;
        if (z < 0 || z >= planes.in || y < 0 || y >= height.in) {
          zero(tile, width_ * channels_);
          continue;
        }
        zero(tile, left * channels_);
        std::memcpy(tile + left * channels_, image + ((z * height.in + y) * across.in + from) * channels_,
                    inside * channels_ * sizeof(float));
        zero(tile + (left + inside) * channels_, right * channels_);
      }
  }
  zero(tile, kMore * slot() + length());
}

Patches::Place Patches::weights_of(int64_t segment, int64_t tap) const {
  const auto& [depth, height, across] = axes_;
  const int64_t pieces = static_cast<int64_t>(across.taps.size()) / run_,
                rows = static_cast<int64_t>(height.taps.size());
  return {depth.taps[segment / pieces / rows].kernel, height.taps[segment / pieces % rows].kernel,
          across.taps[segment % pieces * run_ + tap].kernel};
}

}  // namespace lazuli::lowering
