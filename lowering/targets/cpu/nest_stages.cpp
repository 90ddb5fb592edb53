// Stages of a nest: their row instructions, their loops over the reduced dimensions, and their accumulators.
#include "lowering/targets/cpu/nest_emitter.h"
#include "lowering/targets/loop.h"
#include "lowering/targets/primitives.h"

namespace lazuli::lowering::cpu {

void NestEmitter::all_stages(const Pass& pass) {
  for (unsigned stage = 0; stage < nest_.stages; ++stage) {
    row_insts(stage, pass);
    if (loops(stage)) stage_loop(stage, pass);
  }
}

void NestEmitter::row_insts(unsigned stage, const Pass& pass) {
  for (size_t i = 0; i < nest_.insts.size(); ++i)
    if (nest_.insts[i].stage == stage && plan_.level[i] == Level::Point) run(i, pass);
}

bool NestEmitter::loops(unsigned stage) const {
  for (size_t i = 0; i < nest_.insts.size(); ++i)
    if (nest_.insts[i].stage == stage && plan_.level[i] == Level::Element) return true;
  return false;
}

void NestEmitter::stage_loop(unsigned stage, const Pass& pass) {
  const unsigned copies = column() ? pass.copies : plan_.row_vectors ? plan_.row_vectors : plan_.unroll[stage];
  start_accumulators(stage, copies);
  if (plan_.row_vectors)
    elements(stage, held_row_);
  else
    reduced_loops(stage, kept(), pass);
  finish_accumulators(stage, copies);
}

void NestEmitter::reduced_loops(unsigned stage, uint32_t dim, const Pass& pass) {
  if (dim == nest_.rank) return elements(stage, pass);
  if (dim == nest_.vector_dim()) return lane_loops(stage);
  // Addresses are carried too, and step by the dimension's stride.
  llvm::SmallVector<Value**, 8> carried = accumulator_slots(stage);
  const std::vector<Value*> outside = address_;
  for (size_t a = 0; a < address_.size(); ++a)
    if (stride_[a][dim] && is_used(stage, a)) carried.push_back(&address_[a]);
  summing_loop("reduced", stage, b_.getInt64(0), size_[dim], 1, kChunks, carried, [&](Value* i) {
    const std::vector<Value*> first = address_;
    index_[dim] = i;
    reduced_loops(stage, dim + 1, pass);
    address_ = first;
    for (size_t a = 0; a < address_.size(); ++a)
      if (stride_[a][dim] && is_used(stage, a)) address_[a] = b_.CreatePtrAdd(first[a], stride_[a][dim]);
  });
  address_ = outside;
}

// Whether the stage's element instructions go to this access.
bool NestEmitter::is_used(unsigned stage, size_t access) const {
  for (size_t i = 0; i < nest_.insts.size(); ++i) {
    const Inst& x = nest_.insts[i];
    const bool moves = x.code == Code::Load || x.code == Code::Store || x.code == Code::Accumulate;
    if (x.stage == stage && moves && x.slot == access && plan_.level[i] == Level::Element) return true;
  }
  return false;
}

// The vector dimension of a Row nest.
void NestEmitter::lane_loops(unsigned stage) {
  vector_loops(b_.getInt64(0), size_[nest_.vector_dim()], plan_.unroll[stage], stage, accumulator_slots(stage),
               [&](const Pass& pass) { elements(stage, pass); });
}

// A loop over a reduced dimension. Each chunk of passes has sums of its own, which are then added to the whole; the
// other `chunks` cut it further.
void NestEmitter::summing_loop(const char* name, unsigned stage, Value* first, Value* last, int64_t step,
                               llvm::ArrayRef<int64_t> chunks, llvm::ArrayRef<Value**> carried,
                               const std::function<void(Value*)>& body) {
  llvm::SmallVector<std::pair<size_t, Value**>, 8> sums;
  for (size_t i = 0; i < nest_.insts.size(); ++i) {
    const Inst& x = nest_.insts[i];
    if (x.stage != stage || x.code != Code::Reduce || x.reduce != Reduce::Sum || !ir::is_floating(x.dtype)) continue;
    for (Accumulator& a : accumulators_[i]) sums.push_back({i, &a.value});
  }
  if (sums.empty() || chunks.empty()) return emit_loop(b_, name, first, last, b_.getInt64(step), carried, body);
  Value* chunk = b_.getInt64(step * chunks[0]);
  emit_loop(b_, "chunk", first, last, chunk, carried, [&](Value* from) {
    llvm::SmallVector<Value*, 8> whole;
    for (auto [inst, sum] : sums) {
      whole.push_back(*sum);
      *sum = start_reduction(vector_, Reduce::Sum, nest_.insts[inst].dtype).value;
    }
    Value* to = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateAdd(from, chunk), last);
    summing_loop(name, stage, from, to, step, chunks.drop_front(), carried, body);
    for (size_t k = 0; k < sums.size(); ++k) *sums[k].second = b_.CreateFAdd(whole[k], *sums[k].second);
  });
}

// Elements [first, last) of the vector dimension: several vectors a pass, then one masked vector a pass.
void NestEmitter::vector_loops(Value* first, Value* last, unsigned unroll, unsigned stage,
                               llvm::ArrayRef<Value**> carried, const std::function<void(const Pass&)>& body) {
  const uint32_t dim = nest_.vector_dim();
  Value* middle = first;
  if (unroll > 1 || !plan_.masked_only) {
    const unsigned step = unroll * plan_.lanes;
    middle = b_.CreateAdd(first, b_.CreateAnd(b_.CreateSub(last, first), b_.getInt64(-static_cast<int64_t>(step))));
    summing_loop("vectors", stage, first, middle, step, kVectorChunks, carried, [&](Value* i) {
      index_[dim] = i;
      body({unroll, {}});
    });
  }
  auto partial = [&](Value* i) {
    index_[dim] = i;
    body(partial_pass(b_.CreateSub(last, i)));
  };
  if (middle == first)
    summing_loop("masked", stage, first, last, plan_.lanes, kVectorChunks, carried, partial);
  else
    emit_loop(b_, "tail", middle, last, b_.getInt64(plan_.lanes), carried, partial);
}

void NestEmitter::elements(unsigned stage, const Pass& pass) {
  for (size_t i = 0; i < nest_.insts.size(); ++i)
    if (nest_.insts[i].stage == stage && plan_.level[i] == Level::Element) run(i, pass);
}

NestEmitter::Lanes NestEmitter::lanes_of(Value* remaining) {
  Value* count = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, remaining, b_.getInt64(plan_.lanes));
  return {count, lane_mask(vector_, count)};
}
NestEmitter::Pass NestEmitter::partial_pass(Value* remaining) { return {1, {lanes_of(remaining)}}; }

// All of a row, of which the last vectors may hold nothing.
NestEmitter::Pass NestEmitter::whole_row() {
  Value* size = size_[nest_.vector_dim()];
  index_[nest_.vector_dim()] = b_.getInt64(0);
  Pass pass{plan_.row_vectors, {}};
  for (unsigned c = 0; c < pass.copies; ++c) {
    Value* remaining = b_.CreateSub(size, b_.getInt64(c * plan_.lanes));
    pass.partial.push_back(lanes_of(b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, remaining, b_.getInt64(0))));
  }
  return pass;
}

static ir::DType accumulated_type(const LoopNest& nest, const Inst& x) {
  return is_arg(x.reduce) ? nest.insts[x.args[0]].dtype : x.dtype;
}

void NestEmitter::start_accumulators(unsigned stage, unsigned copies) {
  for (size_t i = 0; i < nest_.insts.size(); ++i) {
    const Inst& x = nest_.insts[i];
    if (x.stage == stage && x.code == Code::Reduce)
      accumulators_[i].assign(copies, start_reduction(vector_, x.reduce, accumulated_type(nest_, x)));
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

void NestEmitter::accumulate(size_t i, const Pass& pass) {
  const Inst& x = nest_.insts[i];
  const ir::DType type = accumulated_type(nest_, x), from = nest_.insts[x.args[0]].dtype;
  // Missing lanes of a Column nest are rows of their own that nobody stores.
  for (unsigned c = 0; c < pass.copies; ++c) {
    Value* active = column() ? nullptr : pass.lanes(c).mask;
    Value* position = is_arg(x.reduce) ? reduced_position(c) : nullptr;
    Vec value = emit_convert(operand(x.args[0], c), from, type);
    accumulators_[i][c] = reduction_step(vector_, x.reduce, type, accumulators_[i][c], value, position, active);
  }
}

void NestEmitter::finish_accumulators(unsigned stage, unsigned copies) {
  for (size_t i = 0; i < nest_.insts.size(); ++i) {
    const Inst& x = nest_.insts[i];
    if (x.stage != stage || x.code != Code::Reduce) continue;
    auto& parts = accumulators_[i];
    if (column()) {
      results_[i].copies.clear();
      for (Accumulator a : parts) results_[i].copies.push_back(reduction_result(vector_, x.reduce, a));
    } else {
      const ir::DType type = accumulated_type(nest_, x);
      for (unsigned n = copies; n > 1; n = n / 2)
        for (unsigned k = 0; k < n / 2; ++k) parts[k] = join(vector_, x.reduce, type, parts[k], parts[k + n / 2]);
      define(i, reduction_result(scalar_, x.reduce, join_lanes(vector_, x.reduce, type, parts[0])));
    }
    parts.clear();
  }
}

}  // namespace lazuli::lowering::cpu
