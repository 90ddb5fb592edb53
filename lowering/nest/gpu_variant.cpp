#include "lowering/nest/gpu_variant.h"
#include <algorithm>
#include <bit>
#include <sstream>

namespace lazuli::lowering {

namespace {

// From PTX 8.1, sm_70 and driver 12.1 on; 4096 before.
constexpr size_t kParameterBytes = 32764;

}  // namespace

size_t gpu_members(const LoopNest& nest, size_t count) {
  constexpr size_t kMost = 128;
  const size_t fit = kParameterBytes / sizeof(int64_t) / GpuGroupLayout(nest, 1).total;
  return std::min({std::bit_ceil(count), std::bit_floor(std::max<size_t>(fit, 1)), kMost});
}

bool fits_gpu(const LoopNest& nest) {
  // Each has a place in a block's shared memory.
  constexpr int kReductions = 64;
  const auto reductions =
      std::count_if(nest.insts.begin(), nest.insts.end(), [](const Inst& x) { return x.code == Code::Reduce; });
  return GpuArgsLayout(nest, true).total * sizeof(int64_t) <= kParameterBytes && reductions <= kReductions;
}

uint64_t GpuVariant::hash() const {
  uint64_t h = 0;
  for (uint64_t x : {uint64_t(mapping), uint64_t(lanes), uint64_t(passes), uint64_t(resident), uint64_t(ragged),
                     uint64_t(wide), uint64_t(chunked), uint64_t(chunk_dim), uint64_t(threads), uint64_t(team),
                     uint64_t(tile_dim), uint64_t(tile), tiled, uint64_t(members)})
    h = (h ^ x) * 0x9E3779B97F4A7C15ull + (h >> 29);
  return h;
}

std::string GpuVariant::print() const {
  constexpr const char* names[] = {"flat", "tile", "rows", "columns"};
  std::ostringstream out;
  out << names[static_cast<int>(mapping)] << " lanes " << int(lanes) << " passes " << int(passes) << " threads "
      << threads;
  if (mapping == GpuMapping::Rows || mapping == GpuMapping::Columns) out << " team " << team;
  if (mapping == GpuMapping::Tile) out << " tile " << int(tile) << " along " << int(tile_dim) << " of " << tiled;
  if (resident) out << " resident";
  if (ragged) out << " ragged";
  if (wide) out << " wide";
  if (chunked) out << " chunks of " << int(chunk_dim);
  if (members > 1) out << " members " << members;
  return out.str();
}

}  // namespace lazuli::lowering
