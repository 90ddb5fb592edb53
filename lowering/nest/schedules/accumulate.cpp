#include "lowering/nest/schedules/accumulate.h"
#include <algorithm>
#include <bit>
#include "lowering/nest/gpu_variant.h"

namespace lazuli::lowering {
namespace {

constexpr int64_t kFewestHeld = 512, kMostHeld = 4096;  // columns of a row that a block's threads hold
constexpr int64_t kFewestRows = 8;  // of a chunk, so that partial sums are little beside what is summed

// The nests have two dimensions: (row, column) and (column, row).
ir::Dims turned(const ir::Dims& strides) { return {strides[1], strides[0]}; }

bool is_plain(const LoopNest& nest) {
  return nest.rank == 2 && nest.reduced == 1 && !nest.tiled() && !nest.checks &&
         std::none_of(nest.insts.begin(), nest.insts.end(),
                      [](const Inst& x) { return x.code == Code::Position || x.code == Code::Accumulate; }) &&
         std::none_of(nest.accesses.begin(), nest.accesses.end(), [](const Access& a) { return a.indexed; });
}

bool stores_elements_first(const LoopNest& nest) {
  return std::any_of(nest.insts.begin(), nest.insts.end(),
                     [](const Inst& x) { return x.code == Code::Store && x.stage == 0 && !x.row; });
}

bool sums_only(const LoopNest& nest) {
  return std::all_of(nest.insts.begin(), nest.insts.end(), [](const Inst& x) {
    return x.code != Code::Reduce || (x.reduce == Reduce::Sum && ir::is_floating(x.dtype));
  });
}

// The loads of `columns`, as accesses of a nest over (row, column).
BoundAccess turned(const Loops& columns, size_t a) {
  BoundAccess b = columns.accesses[a];
  if (columns.nest.accesses[a].row) b.strides[1] = 0;
  b.strides = turned(b.strides);
  b.first_stage = b.last_stage = 0;
  return b;
}

bool is_same(const BoundAccess& a, const Access& of_a, const BoundAccess& b, const Access& of_b,
             const ir::Dims& sizes) {
  if (a.partial || b.partial || a.value != b.value || a.offset != b.offset || of_a.dtype != of_b.dtype) return false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const bool still_a = of_a.row && d == 1, still_b = of_b.row && d == 1;
    if (!sizes[d].is_surely_one() && (still_a ? ir::Size(0) : a.strides[d]) != (still_b ? ir::Size(0) : b.strides[d]))
      return false;
  }
  return true;
}

class Merger {
 public:
  Merger(const Loops& rows, const Loops& partial) : rows_(rows), partial_(partial), out_(rows) {
    out_.nest.insts.clear();
  }

  // Stage 0 of the rows, all of what is summed, and the other stages of the rows.
  Loops run() {
    const auto& insts = rows_.nest.insts;
    size_t i = 0;
    for (; i < insts.size() && insts[i].stage == 0; ++i) copy(insts[i]);
    for (const Inst& x : partial_.nest.insts) take(x);
    for (; i < insts.size(); ++i) copy(insts[i]);
    for (size_t a = 0; a < out_.accesses.size(); ++a) out_.nest.accesses[a].still = out_.accesses[a].strides[0] == 0;
    return std::move(out_);
  }

 private:
  void copy(Inst x) {
    for (int k = 0; k < operand_count(rows_.nest, x); ++k) x.args[k] = to_[x.args[k]];
    to_.push_back(push(x));
  }

  void take(Inst x) {
    for (int k = 0; k < operand_count(partial_.nest, x); ++k) x.args[k] = from_partial_[x.args[k]];
    x.row = false;
    if (x.code == Code::Store) {
      from_partial_.push_back(accumulate(x));
      return;
    }
    if (x.code == Code::Reduce) {
      // It is the sum of this.
      const DType from = out_.nest.insts[x.args[0]].dtype;
      from_partial_.push_back(
          from == x.dtype
              ? x.args[0]
              : shared({.code = Code::Prim, .prim = ir::Prim::convert, .dtype = x.dtype, .args = {x.args[0]}}));
      return;
    }
    if (x.code == Code::Load) x.slot = access(x.slot);
    if (x.code == Code::Param) {
      out_.params.push_back(partial_.params[x.slot]);
      x.slot = out_.nest.params++;
    }
    from_partial_.push_back(shared(x));
  }

  uint16_t accumulate(const Inst& store) {
    BoundAccess to = partial_.accesses[store.slot];
    to.strides = turned(to.strides);
    out_.accesses.push_back(to);
    out_.nest.accesses.push_back({.dtype = store.dtype, .stride = VectorStride::One, .store = true});
    return push({.code = Code::Accumulate,
                 .dtype = store.dtype,
                 .slot = static_cast<uint16_t>(out_.accesses.size() - 1),
                 .args = {store.args[0]}});
  }

  uint16_t access(uint16_t slot) {
    const BoundAccess b = turned(partial_, slot);
    Access a = partial_.nest.accesses[slot];
    a.row = false;
    for (uint16_t other = 0; other < out_.accesses.size(); ++other)
      if (!out_.nest.accesses[other].store &&
          is_same(b, a, out_.accesses[other], out_.nest.accesses[other], out_.sizes)) {
        out_.accesses[other].first_stage = 0;
        return other;
      }
    a.stride = stride_class(b.strides[1]);
    out_.accesses.push_back(b);
    out_.nest.accesses.push_back(a);
    return static_cast<uint16_t>(out_.accesses.size() - 1);
  }

  // A row's value, or an element's, that stage 0 has already.
  uint16_t shared(const Inst& x) {
    for (uint16_t i = 0; i < out_.nest.insts.size(); ++i) {
      Inst have = out_.nest.insts[i];
      have.row = false;
      if (have == x) return i;
    }
    return push(x);
  }

  uint16_t push(const Inst& x) {
    out_.nest.insts.push_back(x);
    return static_cast<uint16_t>(out_.nest.insts.size() - 1);
  }

  using DType = ir::DType;
  const Loops &rows_, &partial_;
  Loops out_;
  std::vector<uint16_t> to_, from_partial_;  // where instructions of the two have gone
};

// Bytes of elements that both load from the same places.
ir::Size shared_bytes(const Loops& rows, const Loops& columns) {
  ir::Size bytes = 0;
  for (size_t c = 0; c < columns.accesses.size(); ++c) {
    const Access& of = columns.nest.accesses[c];
    const BoundAccess b = turned(columns, c);
    Access plain;
    plain.dtype = of.dtype;
    if (of.store || of.row || b.strides[0] == 0 || b.strides[1] == 0) continue;
    for (size_t r = 0; r < rows.accesses.size(); ++r)
      if (!rows.nest.accesses[r].store && is_same(b, plain, rows.accesses[r], rows.nest.accesses[r], rows.sizes)) {
        bytes += ir::product(rows.sizes) * ir::item_size(of.dtype);
        break;
      }
  }
  return bytes;
}

// Whether a thread's elements fit in registers: those loaded twice, for this row and the next, what all rows load and
// the sums once.
bool fits_registers(const LoopNest& nest) {
  constexpr int64_t kMost = 12;  // numbers for each element of a row that the thread has
  ir::Size numbers = 0;
  for (const Access& a : nest.accesses)
    if (!a.row && (!a.store || a.still)) numbers += a.still ? 1 : 2;
  return numbers <= kMost;
}

// Elements that a thread loads at once: 16 bytes of the narrowest.
int lanes(const Loops& rows) {
  ir::Size bytes = sizeof(float);
  for (const Access& a : rows.nest.accesses)
    if (!a.row && a.stride == VectorStride::One) bytes = min(bytes, ir::item_size(a.dtype));
  return static_cast<int>(16 / bytes);
}

}  // namespace

std::optional<SplitReduction> accumulate_columns(const Loops& rows, const Loops& columns, int threads,
                                                 ir::Size least_shared) {
  if (rows.nest.schedule != Schedule::Row || columns.nest.schedule != Schedule::Column) return {};
  if (!is_plain(rows.nest) || !is_plain(columns.nest) || rows.sizes != turned(columns.sizes)) return {};
  if (rows.sizes[1] < kFewestHeld || rows.sizes[1] > kMostHeld) return {};
  if (stores_elements_first(rows.nest) || !walks_once(columns.nest) || !sums_only(columns.nest)) return {};
  if (shared_bytes(rows, columns) < least_shared) return {};
  const auto block = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows.sizes[1] / kAccumulatingElements)));
  const ir::Size blocks = std::max<int64_t>(accumulating_threads(lanes(rows)) / block, 1) * threads;
  const ir::Size chunks = min(blocks, rows.sizes[0] / kFewestRows);
  const ir::Size chunk = (rows.sizes[0] + chunks - 1) / max(chunks, 1);
  if (chunks < threads || chunk >= rows.sizes[0]) return {};
  SplitReduction split = cut(columns, 1, chunk, threads);
  split.partial = Merger(rows, split.partial).run();
  split.partial.sizes[0] = chunk;
  split.chunk_dim = 0;
  return fits_registers(split.partial.nest) ? std::optional(std::move(split)) : std::nullopt;
}

}  // namespace lazuli::lowering
