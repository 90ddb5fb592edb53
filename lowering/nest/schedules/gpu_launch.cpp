// Which variant of a kernel a launch on a GPU takes. Everything here is a class (powers of two, yes or no), since each
// new combination compiles a kernel.
#include <algorithm>
#include <bit>
#include "lowering/nest/gpu_variant.h"
#include "lowering/targets/gpu/nest_plan.h"

namespace lazuli::lowering {
namespace {

constexpr int64_t kAccessBytes = 16;  // the widest access of one thread
constexpr int64_t kMaxLanes = 8;
constexpr int64_t kSectorBytes = 32;  // that memory gives at once
constexpr int64_t kSharedBytes = 48 * 1024;
constexpr int64_t kLongest = 4096;  // instructions, roughly, of a body with all its passes and lanes: compile time

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t power_of_two_above(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}

// Instructions for one element, roughly.
int64_t work_of(const LoopNest& nest) {
  int64_t work = 0;
  for (const Inst& x : nest.insts) {
    const bool function = x.code == Code::Prim && x.prim >= ir::Prim::exp && x.prim <= ir::Prim::erfc;
    const bool heavy =
        x.code == Code::Prim && (x.prim == ir::Prim::pow || x.prim == ir::Prim::atan2 || x.prim == ir::Prim::random ||
                                 x.prim == ir::Prim::fmod || x.prim == ir::Prim::mod || x.prim == ir::Prim::floordiv);
    work += (heavy ? 60 : function ? 20 : 1) * (x.dtype == ir::DType::F64 && (heavy || function) ? 3 : 1);
  }
  return std::max<int64_t>(work, 1);
}

class Chooser {
 public:
  Chooser(const Loops& loops, const std::vector<int64_t>& alignment, int64_t chunks, uint32_t chunk_dim,
          const GpuTarget& target)
      : loops_(loops),
        nest_(loops.nest),
        alignment_(alignment),
        chunks_(chunks),
        target_(target),
        varies_(gpu::find_varying(loops.nest)),
        work_(work_of(loops.nest)),
        vector_dim_(loops.nest.vector_dim()) {
    v().chunked = chunks > 1;
    v().chunk_dim = static_cast<uint8_t>(v().chunked ? chunk_dim : 0);
  }

  GpuLaunch choose() {
    if (ir::product({loops_.sizes.data(), kept()}) == 0 || chunks_ == 0) return launch_;
    v().wide = needs_wide();
    if (nest_.schedule == Schedule::Row) {
      choose_lanes();
      rows();
    } else if (nest_.reduced > 0) {
      choose_lanes();
      columns();
    } else if (!tiles()) {
      choose_lanes();
      flat();
    }
    launch_.threads = v().threads;
    launch_.grid[1] = static_cast<uint32_t>(chunks_);
    return launch_;
  }

 private:
  GpuVariant& v() { return launch_.variant; }
  uint32_t kept() const { return nest_.rank - nest_.reduced; }
  int64_t size(uint32_t d) const { return loops_.sizes[d]; }
  int64_t vectors() { return ceil_div(size(vector_dim_), v().lanes); }
  bool ignored(size_t access, uint32_t d) const { return nest_.accesses[access].row && d >= kept(); }

  // Offsets in elements and counts of threads have to fit 31 bits, with room for the last block's threads beyond.
  bool needs_wide() const {
    constexpr double kLimit = 2e9;
    double points = 1;
    for (int64_t n : loops_.sizes) points *= static_cast<double>(n);
    if (points > kLimit) return true;
    for (size_t a = 0; a < loops_.accesses.size(); ++a) {
      double span = 0;
      for (uint32_t d = 0; d < nest_.rank; ++d)
        if (!ignored(a, d) && size(d) > 1)
          span +=
              std::abs(static_cast<double>(loops_.accesses[a].strides[d])) * static_cast<double>(size(d) + kMaxLanes);
      if (span > kLimit) return true;
    }
    return false;
  }

  // The accesses of which a thread's lanes are neighbours.
  std::vector<bool> dense() const {
    std::vector<bool> dense(nest_.accesses.size());
    for (const Inst& x : nest_.insts)
      if ((x.code == Code::Load || x.code == Code::Store || x.code == Code::Accumulate) &&
          gpu::is_dense(nest_, varies_, x))
        dense[x.slot] = true;
    return dense;
  }

  // Vectors of `lanes` elements of access a along dimension `along` are aligned, wherever they begin.
  bool permits(size_t a, int64_t lanes, uint32_t along) const {
    const BoundAccess& bound = loops_.accesses[a];
    const int64_t item = ir::item_size(nest_.accesses[a].dtype);
    if (alignment_[a] % (lanes * item) != 0) return false;
    for (uint32_t d = 0; d < nest_.rank; ++d)
      if (d != along && !ignored(a, d) && size(d) > 1 && bound.strides[d] % lanes != 0) return false;
    if (nest_.accesses[a].indexed && bound.index_stride % lanes != 0) return false;
    if (!launch_.variant.chunked) return true;
    const uint32_t d = launch_.variant.chunk_dim;
    const int64_t moved = bound.partial ? partial_points(loops_) : size(d) * bound.strides[d];
    return moved % lanes == 0;
  }

  // As many elements to a thread as make one access of 16 bytes of the narrowest type and at most two of the widest.
  void choose_lanes() {
    const std::vector<bool> is_dense = dense();
    int64_t narrowest = kAccessBytes, widest = 1;
    for (size_t a = 0; a < is_dense.size(); ++a) {
      if (!is_dense[a]) continue;
      narrowest = std::min(narrowest, ir::item_size(nest_.accesses[a].dtype));
      widest = std::max(widest, ir::item_size(nest_.accesses[a].dtype));
    }
    wanted_ = std::min({kAccessBytes / narrowest, 2 * kAccessBytes / widest, kMaxLanes});
    int64_t lanes = wanted_;
    while (lanes > 1 && lanes * work_ > kLongest) lanes /= 2;
    for (size_t a = 0; a < is_dense.size(); ++a)
      while (is_dense[a] && lanes > 1 && !permits(a, lanes, vector_dim_)) lanes /= 2;
    const bool chunks_end_anywhere = v().chunked && v().chunk_dim == vector_dim_;
    while (lanes > 1 && size(vector_dim_) < lanes) lanes /= 2;
    v().lanes = static_cast<uint8_t>(lanes);
    v().ragged = lanes > 1 && (size(vector_dim_) % lanes != 0 || chunks_end_anywhere);
  }

  // At most so many passes.
  int64_t bounded(int64_t passes) { return std::clamp<int64_t>(kLongest / (v().lanes * work_), 1, passes); }

  int64_t outer_points(uint32_t until) const { return ir::product({loops_.sizes.data(), until}); }
  int64_t reduced_points() const { return ir::product({loops_.sizes.data() + kept(), nest_.reduced}); }

  void flat() {
    v().mapping = GpuMapping::Flat;
    // Single elements in place of vectors: several a thread keep as many bytes on their way.
    v().passes = static_cast<uint8_t>(bounded(std::clamp<int64_t>(wanted_ / v().lanes, 1, 4)));
    v().threads = 256;
    launch_.grid[0] =
        static_cast<uint32_t>(ceil_div(outer_points(vector_dim_) * vectors(), int64_t{v().threads} * v().passes));
  }

  // Registers that a thread's element values take, for each pass, if a row's are kept from stage to stage.
  int64_t resident_registers() {
    const std::vector<uint16_t> first = gpu::find_repeated(nest_);
    std::vector<int> last_stage(nest_.insts.size());
    for (size_t i = 0; i < nest_.insts.size(); ++i)
      last_stage[first[i]] = std::max<int>(last_stage[first[i]], nest_.insts[i].stage);
    int64_t words = 0;
    for (size_t i = 0; i < nest_.insts.size(); ++i)
      if (nest_.insts[i].code == Code::Load && varies_[i].pass && last_stage[i] > nest_.insts[i].stage)
        words += std::max<int64_t>(ir::item_size(nest_.insts[i].dtype), 4) / 4;
    return std::max<int64_t>(words, 1) * v().lanes;
  }

  // Few counts, so that row lengths share kernels, as long as the registers last.
  static int64_t pass_class(int64_t passes, int64_t limit) {
    for (int64_t n : {1, 2, 3, 4, 6, 8})
      if (n >= passes && n <= limit) return n;
    return passes;
  }

  void rows() {
    v().mapping = GpuMapping::Rows;
    const int64_t rows = outer_points(kept());
    const int64_t outer = ir::product({loops_.sizes.data() + kept(), nest_.reduced - 1u});
    const int64_t row = vectors() * outer;
    const bool accumulates = nest_.accumulates();
    const int64_t registers = resident_registers();
    auto limit = [&](int64_t team) {
      if (accumulates) return std::max<int64_t>(kAccumulatingElements / v().lanes, 1);
      return bounded(std::clamp<int64_t>((team == 1024 ? 24 : 64) / registers, 1, 8));
    };
    int64_t team = accumulates ? 32 : std::min<int64_t>(power_of_two_above(row), 32);
    while (team < 1024 && ceil_div(row, team) > limit(team)) team *= 2;
    // Too few rows to fill the GPU: one pass each, so that nothing waits for itself.
    const int64_t wanted = int64_t{target_.multiprocessors} * target_.threads_per_multiprocessor / 8;
    if (!accumulates && row > team && rows * chunks_ * team < wanted)
      team = std::min<int64_t>(power_of_two_above(row), 1024);
    int64_t passes = std::max<int64_t>(ceil_div(row, team), 1);
    v().resident = accumulates || (row > 0 && passes <= limit(team));
    if (v().resident)
      passes = pass_class(passes, std::max(passes, limit(team)));
    else
      passes = bounded(std::clamp<int64_t>(16 / registers, 1, 2));
    v().passes = static_cast<uint8_t>(passes);
    v().team = static_cast<uint16_t>(team);
    v().threads = static_cast<uint16_t>(std::max<int64_t>(team, 128));
    if (team > 32 || accumulates) v().threads = v().team;
    launch_.grid[0] = static_cast<uint32_t>(accumulates ? 1 : ceil_div(rows, v().threads / v().team));
  }

  void columns() {
    v().mapping = GpuMapping::Columns;
    auto side_of = [&] { return std::min<int64_t>(power_of_two_above(vectors()), 32); };
    auto blocks_of = [&] { return outer_points(vector_dim_) * ceil_div(vectors(), side_of()); };
    // Too few columns to fill the GPU: narrower ones. A warp still reads whole lines.
    while (v().lanes > 1 && vectors() >= 32 && blocks_of() * chunks_ < target_.multiprocessors)
      v().lanes = static_cast<uint8_t>(v().lanes / 2);
    if (v().lanes == 1) v().ragged = false;
    int64_t side = side_of(), blocks = blocks_of();
    // Then fewer threads side by side, as long as they read whole sectors.
    while (side > kSectorBytes / 4 && blocks * chunks_ < target_.multiprocessors)
      side /= 2, blocks = outer_points(vector_dim_) * ceil_div(vectors(), side);
    int64_t below = 256 / side;
    if (blocks * chunks_ < 2 * target_.multiprocessors && v().lanes <= 4) below *= 2;
    below = std::min(below, power_of_two_above(reduced_points()));
    v().team = static_cast<uint16_t>(side);
    v().threads = static_cast<uint16_t>(std::max<int64_t>(side * below, 32));
    const int64_t passes = std::bit_floor(static_cast<uint64_t>(bounded(v().lanes <= 2 ? 8 : 4)));
    v().passes = static_cast<uint8_t>(reduced_points() >= passes * below ? passes : 1);
    launch_.grid[0] = static_cast<uint32_t>(blocks);
  }

  // The dimension, other than the vector dimension, along which most accesses that do not walk memory along the
  // vector dimension do; those accesses go through shared memory.
  bool tiles() {
    if (v().chunked || nest_.rank < 2) return false;
    constexpr int64_t kSmallest = 16;  // of a dimension that is worth tiles
    if (size(vector_dim_) < kSmallest) return false;
    uint64_t best = 0;
    for (uint32_t d = 0; d < nest_.rank; ++d) {
      if (d == vector_dim_ || size(d) < kSmallest) continue;
      uint64_t walking = 0;
      for (size_t a = 0; a < std::min<size_t>(nest_.accesses.size(), 64); ++a)
        if (nest_.accesses[a].stride == VectorStride::Any && !nest_.accesses[a].indexed &&
            loops_.accesses[a].strides[d] == 1)
          walking |= uint64_t{1} << a;
      if (std::popcount(walking) <= std::popcount(best)) continue;
      best = walking;
      v().tile_dim = static_cast<uint8_t>(d);
    }
    int64_t narrowest = 8, widest = 1, bytes_per_item = 0;
    for (size_t a = 0; a < std::min<size_t>(nest_.accesses.size(), 64); ++a) {
      if (!(best >> a & 1)) continue;
      const int64_t item = ir::item_size(nest_.accesses[a].dtype);
      if (bytes_per_item + item > kSharedBytes / (32 * 36)) {
        best &= ~(uint64_t{1} << a);
        continue;
      }
      bytes_per_item += item;
      narrowest = std::min(narrowest, item);
      widest = std::max(widest, item);
    }
    if (!best) return false;
    const bool large = widest <= 2 && bytes_per_item * 64 * 68 <= kSharedBytes / 2;
    v().mapping = GpuMapping::Tile;
    v().tiled = best;
    v().tile = large ? 64 : 32;
    v().threads = 256;
    const int64_t points = int64_t{v().tile} * v().tile / v().threads;  // of a thread
    v().lanes = static_cast<uint8_t>(tile_lanes(points / std::max<int64_t>(4 / narrowest, 1)));
    v().passes = static_cast<uint8_t>(points / v().lanes);
    int64_t blocks = 1;
    for (uint32_t d = 0; d < nest_.rank; ++d)
      blocks *= d == vector_dim_ || d == v().tile_dim ? ceil_div(size(d), v().tile) : size(d);
    launch_.grid[0] = static_cast<uint32_t>(blocks);
    return true;
  }

  // Neighbours that a thread takes at once along either dimension of a tile, at most `limit`. What is left of a vector
  // at the end of a dimension would need code of its own: then single elements do.
  int64_t tile_lanes(int64_t limit) const {
    const GpuVariant& v = launch_.variant;
    const std::vector<bool> is_dense = dense();
    auto tiled = [&](size_t a) { return a < 64 && (v.tiled >> a & 1); };
    int64_t lanes = std::min(limit, kMaxLanes);
    for (size_t a = 0; a < nest_.accesses.size(); ++a)
      if (tiled(a) || is_dense[a]) lanes = std::min(lanes, kAccessBytes / ir::item_size(nest_.accesses[a].dtype));
    auto fits = [&] {
      if (size(vector_dim_) % lanes != 0 || size(v.tile_dim) % lanes != 0) return false;
      for (size_t a = 0; a < nest_.accesses.size(); ++a)
        if ((tiled(a) && !permits(a, lanes, v.tile_dim)) || (is_dense[a] && !permits(a, lanes, vector_dim_)))
          return false;
      return true;
    };
    while (lanes > 1 && !fits()) lanes /= 2;
    return lanes;
  }

  const Loops& loops_;
  const LoopNest& nest_;
  const std::vector<int64_t>& alignment_;
  const int64_t chunks_;
  const GpuTarget& target_;
  const std::vector<gpu::Varies> varies_;
  const int64_t work_;
  const uint32_t vector_dim_;
  int64_t wanted_ = 1;
  GpuLaunch launch_;
};

}  // namespace

GpuLaunch choose_gpu_launch(const Loops& loops, const std::vector<int64_t>& alignment, int64_t chunks,
                            uint32_t chunk_dim, const GpuTarget& target) {
  return Chooser(loops, alignment, chunks, chunk_dim, target).choose();
}

}  // namespace lazuli::lowering
