// One fused kernel before any target: a loop nest over an iteration space, with a typed scalar program per stage. Both
// targets emit code from exactly this, and the kernel cache keys on exactly this: whatever is not in a LoopNest (sizes,
// strides, addresses, run-time numbers) is a run-time argument.
//
// Iteration space: `rank` dimensions, outermost first; the last `reduced` of them are looped inside each point of the
// others ("the row"). One dimension is the vector dimension:
//   Row schedule     the last dimension, which is reduced: a row's reductions finish across lanes, and row values
//                    are the same in each lane (softmax, layer norm, sums over trailing dimensions).
//   Column schedule  the last kept dimension, rank - reduced - 1: each lane is its own row, no reduction crosses
//                    lanes (sums over leading dimensions, batch norm channels-last); with reduced = 0 this is the
//                    plain elementwise kernel.
// A Column nest without reduced dimensions may be tiled: then some of its accesses are dense along another kept
// dimension, `tile`, instead of the vector dimension (one operand lies transposed to another). It is walked in squares
// of both dimensions, in which targets turn such operands round, so that memory is only touched along its rows.
//
// For each kept point: for each stage in order, its row instructions run once, then its loop runs over the reduced
// dimensions with its element instructions; Reduce instructions accumulate there, and are read by row (or element)
// instructions of later stages. Element values do not outlive their stage: a later stage that wants one again has its
// own copy of the instructions (recomputed, unless the target keeps their values; loads hit the cache). A stage without
// element instructions has no loop.
//
// A Row nest may also sum across its rows: an Accumulate instruction adds to memory that no kept dimension moves,
// element by element of the row. Such a nest is one unit, all kept points in their order; for threads the kept points
// are cut into chunks with memory of their own.
//
// A store may overwrite, in place, what a load of the same point (same strides, same offset) has read in this stage or
// an earlier one: targets keep loads before the stores that follow them and assume nothing of pointers being distinct.
// In a tiled nest all accesses across are loaded before, and stored after, the other accesses of their square.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <vector>
#include "ir/op.h"

namespace lazuli::lowering {

enum class Schedule : uint8_t { Row, Column };
using Reduce = ir::Combine;

// How a memory operand moves along the vector dimension; part of the code. Backward: by -1, as what is flipped does.
// Two: by 2, as either part of complex numbers does. Strides along the others are arguments.
enum class VectorStride : uint8_t { Zero, One, Any, Backward, Two };

inline constexpr uint16_t kAlone = 0xFFFF;

struct Access {
  ir::DType dtype;  // in memory; loads convert to compute_type, stores convert back
  VectorStride stride;
  bool row = false;  // does not vary along reduced dimensions: loaded or stored once per kept point
  bool store = false;
  bool indexed = false;  // the address also moves by a run-time index times index_stride (an argument): gather
  bool across = false;   // tiled nests: stride Any, and 1 along the tile dimension
  bool still = false;    // nests that accumulate: no kept dimension moves it, so that all rows may load it once
  // Stride Two: the access one element after which this one lies, and the one before which it does, wherever they move.
  // Two such fill their memory, as the parts of complex numbers do: whole vectors are taken apart, or put together. No
  // access both follows one and is followed.
  uint16_t after = kAlone, before = kAlone;
  friend bool operator==(const Access&, const Access&) = default;
};

enum class Code : uint8_t {
  Prim,        // a scalar primitive; args are earlier instructions
  Load,        // access `slot`; args[0] = I64 index instruction when the access is indexed
  Store,       // args[0] to access `slot`; args[1] = I64 index instruction when indexed
  Param,       // run-time number `slot`, converted to dtype (stored as double, or as int64 for integral and Bool)
  Position,    // I64: the iteration index along dimension `slot`
  Reduce,      // accumulates args[0] over the stage's loop with `reduce`; dtype is the accumulator's; for Arg* the
               // result is the I64 position along the flattened reduced dimensions
  Accumulate,  // adds args[0] to access `slot`, a store of its own dtype; at the first kept point, it is stored
  Check,       // where args[0] (Bool) holds, check number `slot` has failed: see LoopNest::checks
};

struct Inst {
  Code code = Code::Prim;
  ir::Prim prim = ir::Prim::argument;
  Reduce reduce = Reduce::Sum;
  ir::DType dtype = ir::DType::F32;  // of the result, always a compute type
  uint8_t stage = 0;
  bool row = false;  // runs once per kept point rather than per element
  uint16_t slot = 0;
  uint16_t args[3] = {0, 0, 0};
  double value = 0;  // literals
  // Literals are equal by their bits: -0.0 is not 0.0, and a NaN is itself.
  friend bool operator==(const Inst& a, const Inst& b) {
    return a.code == b.code && a.prim == b.prim && a.reduce == b.reduce && a.dtype == b.dtype && a.stage == b.stage &&
           a.row == b.row && a.slot == b.slot && std::equal(a.args, a.args + 3, b.args) &&
           std::bit_cast<uint64_t>(a.value) == std::bit_cast<uint64_t>(b.value);
  }
};

inline constexpr uint8_t kNoTile = 0xFF;

struct LoopNest {
  Schedule schedule = Schedule::Column;
  uint8_t rank = 1;
  uint8_t reduced = 0;
  uint8_t stages = 1;
  uint8_t tile = kNoTile;  // a kept dimension before the vector dimension
  // Row schedule with one reduced dimension: rows have at most so many elements; 0: any number. Targets may keep values
  // of such a row from stage to stage.
  uint16_t row_bound = 0;
  uint16_t params = 0;  // run-time numbers
  // Errors that only the numbers show (a zero divisor, an index out of range). A kernel cannot raise them: it goes on
  // with some number, and writes 1 to the check's status word of 64 bits. Whoever launched it looks there when it is
  // done. A GPU's kernel has one word for all its checks, and writes 1 + the number of one that failed.
  uint16_t checks = 0;
  std::vector<Access> accesses;
  std::vector<Inst> insts;  // by stage; within a stage row instructions first, each after its arguments
  friend bool operator==(const LoopNest&, const LoopNest&) = default;

  bool tiled() const { return tile != kNoTile; }
  bool accumulates() const {
    return std::any_of(insts.begin(), insts.end(), [](const Inst& x) { return x.code == Code::Accumulate; });
  }
  uint32_t vector_dim() const { return schedule == Schedule::Row ? rank - 1u : rank - reduced - 1u; }
  uint64_t hash() const;
  std::vector<uint64_t> words() const;  // the whole nest as numbers: other nests give others
  std::string print() const;            // readable text, for dumps and tests
};

// A compiled kernel runs units [begin, end) of its parallel domain, from any thread:
//   Row: one unit per kept point (row-major over kept dimensions), or one for all of them if the nest accumulates.
//   Column: kept dimensions other than the vector dimension (row-major), times ceil(size of the vector dimension /
//   `block`) blocks, the block index moving fastest. Elements of the last block past the size are masked off. The tile
//   dimension, if there is one, goes by such blocks too, in its place among the kept dimensions.
// `args`, all int64: [block] [sizes: rank] [pointers: accesses] [strides: accesses x rank, in elements]
// [index strides: one per access, in elements] [params] [address of the status words, if there are checks].
using KernelFn = void (*)(const int64_t* args, int64_t begin, int64_t end);

struct KernelArgsLayout {
  explicit KernelArgsLayout(const LoopNest& n)
      : sizes(1),
        pointers(sizes + n.rank),
        strides(pointers + n.accesses.size()),
        index_strides(strides + n.accesses.size() * n.rank),
        params(index_strides + n.accesses.size()),
        status(params + n.params),
        total(status + (n.checks ? 1 : 0)) {}
  size_t sizes, pointers, strides, index_strides, params, status, total;
};

// How many earlier instructions `x` reads: the first of its args.
int operand_count(const LoopNest& nest, const Inst& x);

// The readable reference: executes a nest on host memory, one element at a time, exactly as the comment above says.
// Tests compare every target with it.
void interpret(const LoopNest& nest, const int64_t* args, int64_t begin, int64_t end);
int64_t units(const LoopNest& nest, const int64_t* args);

}  // namespace lazuli::lowering
