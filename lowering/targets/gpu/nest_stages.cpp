// Stages of a nest: their row instructions, their loops over the reduced points, and their accumulators.
#include "lowering/targets/gpu/nest_emitter.h"
#include "lowering/targets/gpu/threads.h"
#include "lowering/targets/loop.h"
#include "lowering/targets/primitives.h"

namespace lazuli::lowering::gpu {

void NestEmitter::all_stages() {
  for (unsigned stage = 0; stage < nest_.stages; ++stage) {
    bool loops = false;
    for (size_t i = 0; i < nest_.insts.size(); ++i) {
      if (nest_.insts[i].stage != stage) continue;
      if (nest_.reduced == 0 || nest_.insts[i].row)
        run(i);
      else
        loops = true;
    }
    if (loops) stage_loop(stage);
  }
}

void NestEmitter::stage_loop(unsigned stage) {
  start_accumulators(stage);
  if (variant_.resident) {
    elements(stage);
  } else {
    const unsigned team = variant_.mapping == GpuMapping::Rows ? variant_.team : variant_.threads / variant_.team;
    // All threads go round as often as each other.
    emit_loop(b_, "points", natural(0), reduced_vectors_, natural(int64_t{team} * passes()), accumulator_slots(stage),
              [&](Value* first) {
                set_reduced_points(first);
                elements(stage);
              });
  }
  finish_accumulators(stage);
}

void NestEmitter::elements(unsigned stage) {
  for (size_t i = 0; i < nest_.insts.size(); ++i)
    if (nest_.insts[i].stage == stage && !nest_.insts[i].row) run(i);
}

// The passes' reduced points: vectors of a row, or points below each other.
void NestEmitter::set_reduced_points(Value* first) {
  const bool rows = variant_.mapping == GpuMapping::Rows;
  const unsigned team = rows ? variant_.team : variant_.threads / variant_.team;
  llvm::SmallVector<Value*, 6> radix(size_.begin() + kept(), size_.end());
  if (rows) radix.back() = vectors_;
  for (uint32_t d = kept(); d < nest_.rank; ++d) index_[d].assign(passes(), nullptr);
  first = b_.CreateAdd(first, rows ? team_lane_ : team_row_);
  for (unsigned u = 0; u < passes(); ++u) {
    Value* point = b_.CreateAdd(first, natural(int64_t{team} * u));
    active_[u] = b_.CreateICmpULT(point, reduced_vectors_);
    // The first point stands in for one that does not exist: what it loads is there, and nothing comes of it.
    Values at = unravel(b_.CreateSelect(active_[u], point, natural(0)), radix);
    if (rows) at.back() = b_.CreateNUWMul(at.back(), natural(lanes()));
    for (uint32_t d = kept(); d < nest_.rank; ++d) index_[d][u] = at[d - kept()];
  }
}

void NestEmitter::start_accumulators(unsigned stage) {
  for (size_t i = 0; i < nest_.insts.size(); ++i) {
    const Inst& x = nest_.insts[i];
    if (x.stage == stage && x.code == Code::Reduce)
      accumulators_[i].assign(lanes(), start_reduction(ir_, x.reduce, accumulated_type(x)));
  }
}

llvm::SmallVector<llvm::Value**, 8> NestEmitter::accumulator_slots(unsigned stage) {
  llvm::SmallVector<Value**, 8> slots;
  for (size_t i = 0; i < nest_.insts.size(); ++i) {
    if (nest_.insts[i].stage != stage) continue;
    for (Accumulator& a : accumulators_[i]) {
      slots.push_back(&a.value);
      if (a.position) slots.push_back(&a.position);
    }
  }
  return slots;
}

void NestEmitter::accumulate(size_t i) {
  const Inst& x = nest_.insts[i];
  const ir::DType type = accumulated_type(x), from = nest_.insts[x.args[0]].dtype;
  const bool rows = variant_.mapping == GpuMapping::Rows;
  for (unsigned u = 0; u < passes(); ++u) {
    Value* position = nullptr;
    if (is_arg(x.reduce)) {
      position = natural(0);
      for (uint32_t d = kept(); d < nest_.rank; ++d)
        position = b_.CreateAdd(b_.CreateMul(position, size_[d]), index_[d][u]);
      position = b_.CreateSExt(position, b_.getInt64Ty());
    }
    for (unsigned c = 0; c < lanes(); ++c) {
      Value* at = position && rows && c ? b_.CreateAdd(position, b_.getInt64(c)) : position;
      // Missing lanes of a Column nest are columns of their own that nobody stores.
      Value* active = both(active_[u], rows ? lane_exists(u, c) : nullptr);
      const Vec value = emit_convert({&ir_, operand(x.args[0], u, c)}, from, type);
      accumulators_[i][c] = reduction_step(ir_, x.reduce, type, accumulators_[i][c], value, at, active);
    }
  }
}

void NestEmitter::finish_accumulators(unsigned stage) {
  llvm::SmallVector<size_t, 8> reduces;
  for (size_t i = 0; i < nest_.insts.size(); ++i)
    if (nest_.insts[i].stage == stage && nest_.insts[i].code == Code::Reduce) reduces.push_back(i);
  if (variant_.mapping == GpuMapping::Rows) {
    join_rows(reduces);
  } else {
    for (size_t i : reduces) join_columns(i);
  }
  for (size_t i : reduces) {
    results_[i].assign(size_t{passes()} * lanes(), nullptr);
    for (size_t c = 0; c < accumulators_[i].size(); ++c)
      results_[i][c] = reduction_result(ir_, nest_.insts[i].reduce, accumulators_[i][c]);
    accumulators_[i].clear();
  }
}

}  // namespace lazuli::lowering::gpu
