// The patches of a channels-last image that a convolution reads, as rows of a matrix: where each lies in a tile, a band
// of the image that is copied with its padding.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace lazuli::lowering {

// Along one dimension: output position `o` reads input o * step + shift, for each tap's shift; outside the image there
// is zero.
struct PatchAxis {
  struct Tap {
    int64_t shift, kernel;  // and the place in the weights
  };
  int64_t in = 1, out = 1, step = 1;
  std::vector<Tap> taps{{0, 0}};  // shifts ascend
};
using PatchAxes = std::array<PatchAxis, 3>;  // depth, height, width

// A tile holds what `rows` rows of outputs read, so that the patches of neighbours in a row are slot() elements apart,
// and those of a row's neighbours below slots_of_row() times that.
class Patches {
 public:
  Patches(const PatchAxes& axes, int64_t channels);

  // Rows of a tile from now on.
  void set_rows(int64_t rows);
  int64_t rows() const { return rows_; }
  // Whether the patches lie in the image as they would in a tile.
  bool lie_in_image() const;
  // Floats, with room behind for the patches of `kMore` slots more, which are zero or of the next row.
  static constexpr int64_t kMore = 16;
  int64_t tile_size() const;
  // Outputs that are computed together: some rows of an image from row `first` of `depth` on, or some whole images.
  struct Part {
    int64_t n, images, depth, first, rows;
  };
  // The tiles of a part, one after the other: in `copies`, or where they lie if `behind` floats, which are read in
  // vain, lie behind them. `x`: [count, depth, height, width, channels].
  const float* tiles(const float* x, int64_t count, const Part& part, int64_t behind, float* copies) const;

  int64_t slot() const { return axes_[2].step * channels_; }
  int64_t slots_of_row() const { return width_ / axes_[2].step; }
  // A patch is these pieces of `length()` elements, by where they begin in the tile; set_rows() moves them.
  const std::vector<int64_t>& segments() const { return segments_; }
  int64_t length() const { return run_ * channels_; }
  // Which weights the elements of a segment meet: tap by tap, `channels` each.
  struct Place {
    int64_t depth, height, width;
  };
  int64_t taps_of_segment() const { return run_; }
  Place weights_of(int64_t segment, int64_t tap) const;

 private:
  int64_t phase_of(int64_t shift) const;
  void copy(const float* image, int64_t depth, int64_t first, float* tile) const;

  PatchAxes axes_;
  int64_t channels_, rows_ = 1;
  int64_t run_;                  // taps side by side in the tile
  int64_t width_;                // of a row of the tile
  std::vector<int64_t> phases_;  // rows of the image, modulo the step, that are read at all
  int64_t lowest_, highest_;     // how far above and below its own row an output reads, in steps
  std::vector<int64_t> segments_;
};

}  // namespace lazuli::lowering
