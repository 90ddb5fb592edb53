#include "lowering/targets/cpu/nest_plan.h"

#include <algorithm>

#include "ir/dtype.h"
#include "lowering/nest/cost.h"
#include "lowering/targets/reduction.h"

namespace lazuli::lowering::cpu {
namespace {

bool is_uniform(const LoopNest& nest, const Inst& x, const std::vector<bool>& uniform) {
  const bool row_schedule = nest.schedule == Schedule::Row;
  bool operands = true;
  for (int k = 0; k < operand_count(nest, x); ++k) operands &= uniform[x.args[k]];
  switch (x.code) {
    case Code::Prim:
    case Code::Check:
      return operands;
    case Code::Param:
      return true;
    case Code::Position:
      return x.slot != nest.vector_dim();
    case Code::Load: {
      const Access& a = nest.accesses[x.slot];
      return operands && (a.stride == VectorStride::Zero || (a.row && row_schedule));
    }
    case Code::Reduce:
      return row_schedule;
    case Code::Store:
    case Code::Accumulate:
      return false;
  }
  return false;
}

Level level_of(const LoopNest& nest, const Inst& x, bool uniform, const std::vector<Level>& level) {
  const Level innermost = x.row ? Level::Point : Level::Element;
  if (nest.tiled() && (x.code == Code::Load || x.code == Code::Position)) return innermost;  // rows of a square differ
  if (!uniform || x.code == Code::Reduce || x.code == Code::Store || x.code == Code::Accumulate) return innermost;
  Level deepest = Level::Kernel;
  // A loop over nothing checks nothing, but a unit has elements unless a reduced dimension is empty.
  if (x.code == Code::Check) deepest = x.row || nest.reduced == 0 ? Level::Unit : innermost;
  if (x.code == Code::Load || x.code == Code::Position) {
    // Uniform along the vector dimension; whatever else may vary are kept dimensions, unless the stage loops.
    const bool still = x.row || nest.reduced == 0 || (x.code == Code::Load && nest.accesses[x.slot].row) ||
                       (x.code == Code::Position && x.slot + nest.reduced < nest.rank);
    deepest = still ? Level::Unit : innermost;
  }
  for (int k = 0; k < operand_count(nest, x); ++k) deepest = std::max(deepest, level[x.args[k]]);
  return std::min(deepest, innermost);
}

// A reduction of a Row nest has one result for all lanes, but accumulates vectors.
bool works_on_vectors(const Inst& x, bool uniform) { return !uniform || x.code == Code::Reduce; }

unsigned widest_bits(const LoopNest& nest, const std::vector<bool>& uniform) {
  int64_t bytes = 1;
  for (size_t i = 0; i < nest.insts.size(); ++i)
    if (works_on_vectors(nest.insts[i], uniform[i]) && nest.insts[i].code != Code::Store)
      bytes = std::max(bytes, ir::item_size(nest.insts[i].dtype));
  return static_cast<unsigned>(bytes) * 8;
}

// Rough instruction counts, to keep unrolled bodies within the registers and the compile time of small ones.
unsigned weight(const LoopNest& nest, const Inst& x) {
  if (x.code == Code::Load && nest.accesses[x.slot].stride == VectorStride::Any)
    return nest.accesses[x.slot].across ? 2 : 16;
  if (x.code == Code::Load && nest.accesses[x.slot].stride == VectorStride::Two) return 2;
  return x.code == Code::Prim ? primitive_cost(x.prim) : 1;
}

// Walked one or two vectors at a time, a block of columns is a line or two of each row, and often of each page: nothing
// that could be prefetched. So bodies that leave room for no more walk row by row, with accumulators in memory, if all
// that their columns need besides is cheap enough to be had again for every row.
bool goes_row_by_row(const LoopNest& nest, const NestPlan& p) {
  if (nest.schedule != Schedule::Column || nest.reduced != 1 || nest.tiled() || p.unroll[0] > 2) return false;
  constexpr unsigned kCheap = 8;
  unsigned columns = 0, looping = 0;
  for (unsigned stage = 0; stage < nest.stages; ++stage) {
    bool loops = false;
    for (size_t i = 0; i < nest.insts.size(); ++i) {
      const Inst& x = nest.insts[i];
      if (x.stage != stage) continue;
      loops |= p.level[i] == Level::Element;
      if (x.code == Code::Accumulate || x.code == Code::Check) return false;
      if (x.code == Code::Reduce && (is_arg(x.reduce) || !ir::is_floating(x.dtype))) return false;
      if (p.level[i] == Level::Point && x.code == Code::Store && looping == 0) return false;
      if (p.level[i] == Level::Point && looping == 0) columns += weight(nest, x);
    }
    looping += loops;
    if (loops && columns > kCheap) return false;
  }
  return looping == 1;
}

// One vector a pass, but where several accumulators of a row decide in which order its elements are added up.
void leave_out_copies(const LoopNest& nest, NestPlan& p) {
  std::vector<bool> accumulates(nest.stages);
  if (nest.schedule == Schedule::Row)
    for (const Inst& x : nest.insts)
      if (x.code == Code::Reduce) accumulates[x.stage] = true;
  for (unsigned stage = 0; stage < nest.stages; ++stage)
    if (!accumulates[stage]) p.unroll[stage] = 1;
}

// Light bodies need several vectors in flight, for independent accumulators and less loop; with two of them elementary
// functions run a third faster. The heaviest gain little from copies, which cost compile time.
unsigned unroll_for(unsigned work, bool wide) {
  const unsigned vectors = work <= 16 ? 4 : work <= 48 ? 2 : 1;
  return wide ? std::max(1u, vectors / 2) : vectors;
}

// How many vectors hold a row: none if rows may be longer than a few, or bodies are too heavy to be written so often.
unsigned row_vectors(const LoopNest& nest, unsigned lanes, unsigned work, bool wide) {
  constexpr unsigned kMost = 4, kMostWork = 480;
  const unsigned vectors = (nest.row_bound + lanes - 1) / lanes, registers = vectors * (wide ? 2 : 1);
  return registers <= kMost && vectors * work <= kMostWork ? vectors : 0;
}

// A later stage has its own copy of the instructions whose values it wants again.
void find_repeated(const LoopNest& nest, NestPlan& p) {
  p.same.resize(nest.insts.size());
  std::vector<Inst> canonical = nest.insts;  // of one stage, over the first of those that give the same
  for (uint16_t i = 0; i < nest.insts.size(); ++i) {
    Inst& x = canonical[i];
    x.stage = 0;
    for (int a = 0; a < operand_count(nest, x); ++a) x.args[a] = p.same[x.args[a]];
    p.same[i] = i;
    const bool repeats = x.code == Code::Prim || x.code == Code::Position || x.code == Code::Load;
    if (!repeats || (x.code == Code::Load && p.level[i] != Level::Element)) continue;
    for (uint16_t k = 0; k < i && p.same[i] == i; ++k)
      if (p.level[k] == p.level[i] && canonical[k] == canonical[i]) p.same[i] = p.same[k];
    if (p.splat[i]) p.splat[p.same[i]] = true;
  }
}

// What is costly and wanted again by a later stage is kept in memory of the kernel's own, as far as that fits the
// caches beside the row itself.
void choose_kept(const LoopNest& nest, NestPlan& p) {
  constexpr int64_t kMost = 64 << 10;  // bytes
  int64_t bytes = 0;
  for (size_t i = 0; i < nest.insts.size(); ++i) {
    const Inst& x = nest.insts[i];
    const uint16_t first = p.same[i];
    const bool repeats = x.code == Code::Prim && is_costly(x.prim) && p.level[i] == Level::Element && !p.uniform[i] &&
                         x.dtype != ir::DType::Bool && nest.insts[first].stage < x.stage;
    if (!repeats) continue;
    if (p.kept.empty()) p.kept.resize(nest.insts.size(), Kept::No);
    if (p.kept[first] == Kept::No) {
      const int64_t more = nest.row_bound * ir::item_size(x.dtype);
      if (bytes + more > kMost) continue;
      bytes += more;
      p.kept[first] = Kept::First;
    }
    p.kept[i] = Kept::Again;
  }
}

}  // namespace

NestPlan plan_nest(const LoopNest& nest, const CpuTarget& target) {
  NestPlan p;
  const size_t n = nest.insts.size();
  p.uniform.resize(n);
  p.splat.resize(n);
  p.level.resize(n);
  for (size_t i = 0; i < n; ++i) {
    const Inst& x = nest.insts[i];
    p.uniform[i] = is_uniform(nest, x, p.uniform);
    p.level[i] = level_of(nest, x, p.uniform[i], p.level);
  }
  for (size_t i = 0; i < n; ++i)
    for (int k = 0; k < operand_count(nest, nest.insts[i]) && works_on_vectors(nest.insts[i], p.uniform[i]); ++k)
      if (uint16_t a = nest.insts[i].args[k]; p.uniform[a]) p.splat[a] = true;

  // Eight-byte lanes take two registers each: that is simpler than a second lane count, and unrolls by itself.
  p.lanes = target.vector_bits / std::min(widest_bits(nest, p.uniform), 32u);
  const bool wide = widest_bits(nest, p.uniform) > 32;
  std::vector<unsigned> work(nest.stages);
  unsigned total = 0;
  for (size_t i = 0; i < n; ++i)
    if (works_on_vectors(nest.insts[i], p.uniform[i])) {
      work[nest.insts[i].stage] += weight(nest, nest.insts[i]);
      total += weight(nest, nest.insts[i]);
    }
  for (unsigned w : work) p.unroll.push_back(unroll_for(nest.schedule == Schedule::Row ? w : total, wide));
  p.masked_only = target.masks;
  p.row_vectors = row_vectors(nest, p.lanes, total, wide);
  if (nest.row_bound) find_repeated(nest, p);
  if (nest.row_bound && !p.row_vectors) choose_kept(nest, p);
  p.row_by_row = goes_row_by_row(nest, p);
  p.rows_written_out = nest.tiled() && p.lanes <= 16 && total <= 12;
  if (target.compact) leave_out_copies(nest, p);
  return p;
}

}  // namespace lazuli::lowering::cpu
