// How a loop nest runs on a GPU: the shape of its kernel (the variant, which with the nest decides the code) and the
// grid of one launch. Sizes, strides and addresses stay run-time arguments, so that a variant is one of a few classes
// and a new batch size nearly always finds its kernel.
#pragma once
#include <string>
#include <vector>
#include "lowering/nest/loops.h"

namespace lazuli::lowering {

struct GpuTarget {
  int multiprocessors = 132;
  int threads_per_multiprocessor = 2048;
  int capability = 90;
};

// Kernels that accumulate: elements of a row that a thread has, and threads of a multiprocessor that they keep busy. A
// thread has those of this row and of the next one, and sums, in registers, and wide elements take more of them.
inline constexpr int kAccumulatingElements = 8;
constexpr int accumulating_threads(int lanes) { return lanes < kAccumulatingElements ? 512 : 640; }

// Which points of the iteration space a thread takes.
enum class GpuMapping : uint8_t {
  Flat,     // nothing reduced: threads over vectors along the vector dimension
  Tile,     // nothing reduced: square tiles through shared memory, so that accesses along two dimensions coalesce
  Rows,     // Row schedule: a team of threads for each row
  Columns,  // Column schedule with reductions: threads across columns times threads down the reduced points
};

struct GpuVariant {
  GpuMapping mapping = GpuMapping::Flat;
  uint8_t lanes = 1;      // neighbours along the vector dimension (Tile: also along the tile's other dimension) that a
                          // thread takes at once: one memory access
  uint8_t passes = 1;     // such vectors in flight
  bool resident = false;  // Rows: the passes cover the whole row, and later stages find its values in registers
  bool ragged = false;    // the vector dimension need not be a multiple of `lanes`
  bool wide = false;      // indices and offsets need 64 bits
  bool chunked = false;   // the grid's second dimension counts chunks of dimension `chunk_dim`
  uint8_t chunk_dim = 0;
  uint16_t threads = 256;  // per block
  uint16_t team = 1;       // Rows: threads to a row; Columns: threads side by side
  uint8_t tile_dim = 0;    // Tile: the other dimension of a tile
  uint8_t tile = 0;        // and its side, in elements
  uint64_t tiled = 0;      // the accesses that walk memory along it, as bits
  uint16_t members = 1;    // a power of two: one launch does the work of up to so many (GpuGroupLayout)
  friend bool operator==(const GpuVariant&, const GpuVariant&) = default;

  uint64_t hash() const;
  std::string print() const;  // "rows lanes 8 passes 4 resident team 32 threads 128"
};

struct GpuLaunch {
  GpuVariant variant;
  uint32_t grid[3] = {0, 1, 1};  // grid[0] == 0: there is nothing to do
  uint32_t threads = 0;
};

// The kernel's one parameter, in param space: the arguments that a CPU kernel gets, then those of chunks. All int64.
// The arguments are those of the first chunk, and block c of the grid's second dimension works on chunk c: there
// `chunk_dim` has min(chunk_size, chunk_total - c * chunk_size) elements and address a is moved by c * moves[a] bytes.
// `block` is not looked at.
struct GpuArgsLayout : KernelArgsLayout {
  GpuArgsLayout(const LoopNest& nest, bool chunked)
      : KernelArgsLayout(nest), chunk_size(total), chunk_total(total + 1), moves(total + 2) {
    if (chunked) total = moves + nest.accesses.size();
  }
  size_t chunk_size, chunk_total, moves;
};

// The parameter of a kernel with several members: the first block of each in the grid's first dimension (kNoMember for
// those that there are not), then the arguments of each. They are not chunked.
struct GpuGroupLayout {
  GpuGroupLayout(const LoopNest& nest, size_t members)
      : arguments(members), stride(GpuArgsLayout(nest, false).total), total(arguments + members * stride) {}
  static constexpr int64_t kNoMember = INT32_MAX;
  size_t arguments, stride, total;
};

// How many members a kernel for `count` launches has: as many as fit a kernel's parameters. 1: each goes by itself.
size_t gpu_members(const LoopNest& nest, size_t count);

// Whether the nest's arguments fit a kernel's parameters, chunked or not, and its reductions a block's shared memory.
// Others cannot run on a GPU as one kernel.
bool fits_gpu(const LoopNest& nest);

// `alignment[a]`: bytes by which the address of access a is known to be divisible. `chunks` of dimension `chunk_dim`,
// whose size in `loops` is that of one chunk; 1 for an ordinary launch. The memory of an access must be readable to
// the end of the 64-byte line that its last element lies in.
GpuLaunch choose_gpu_launch(const Loops& loops, const std::vector<int64_t>& alignment, int64_t chunks,
                            uint32_t chunk_dim, const GpuTarget& target);

}  // namespace lazuli::lowering
