// The instructions of a nest.
#include "lowering/targets/cpu/nest_emitter.h"
#include "lowering/targets/memory_types.h"
#include "lowering/targets/primitives.h"

namespace lazuli::lowering::cpu {

void NestEmitter::run_level(Level level) {
  for (size_t i = 0; i < nest_.insts.size(); ++i)
    if (plan_.level[i] == level) run(i, {1, {}});
}

void NestEmitter::run(size_t i, const Pass& pass) {
  const Inst& x = nest_.insts[i];
  if (plan_.row_vectors && plan_.same[i] != i) {
    results_[i] = results_[plan_.same[i]];
    return;
  }
  results_[i] = {};
  const Kept kept = plan_.kept.empty() ? Kept::No : plan_.kept[i];
  if (kept == Kept::Again) return recall(i, pass);
  switch (x.code) {
    case Code::Prim:
      primitive(i, pass);
      if (kept == Kept::First) keep(i, pass);
      return;
    case Code::Load:
      return load(i, pass);
    case Code::Store:
      return store(i, pass);
    case Code::Reduce:
      return accumulate(i, pass);
    case Code::Accumulate:
      return add_to_memory(i, pass);
    case Code::Check:
      return check(i, pass);
    case Code::Param: {
      // Floating numbers arrive as doubles, the others as int64.
      const bool floating = ir::is_floating(x.dtype);
      Value* bits = floating ? b_.CreateBitCast(param_[x.slot], b_.getDoubleTy()) : param_[x.slot];
      return define(i, emit_convert({&scalar_, bits}, floating ? ir::DType::F64 : ir::DType::I64, x.dtype).v);
    }
    case Code::Position:
      if (plan_.uniform[i]) return define(i, index_[x.slot]);
      for (unsigned c = 0; c < pass.copies; ++c) results_[i].copies.push_back(lane_index(c));
      return;
  }
}

void NestEmitter::define(size_t i, Value* uniform) {
  results_[i].uniform = uniform;
  if (plan_.splat[i]) results_[i].splat = vector_.splat(uniform);
}

Vec NestEmitter::operand(uint16_t inst, unsigned copy) {
  const Result& r = results_[inst];
  return {&vector_, r.uniform ? r.splat : r.copies[copy]};
}

// Lane numbers along the vector dimension.
llvm::Value* NestEmitter::lane_index(unsigned copy) {
  Value* first = b_.CreateAdd(index_[nest_.vector_dim()], b_.getInt64(copy * plan_.lanes));
  return b_.CreateAdd(vector_.splat(first), vector_.iota());
}

llvm::Value* NestEmitter::reduced_position(unsigned copy) {
  Value* position = b_.getInt64(0);
  for (uint32_t d = kept(); d < nest_.rank; ++d) position = b_.CreateAdd(b_.CreateMul(position, size_[d]), index_[d]);
  if (column()) return vector_.splat(position);
  position = b_.CreateAdd(position, b_.getInt64(copy * plan_.lanes));
  return b_.CreateAdd(vector_.splat(position), vector_.iota());
}

void NestEmitter::primitive(size_t i, const Pass& pass) {
  const Inst& x = nest_.insts[i];
  const bool uniform = plan_.uniform[i];
  if (x.prim == ir::Prim::literal) return define(i, emit_literal(scalar_, x.value, x.dtype).v);
  const unsigned arity = ir::info(x.prim).arity;
  for (unsigned c = 0; c < (uniform ? 1 : pass.copies); ++c) {
    Vec args[3];
    for (unsigned k = 0; k < arity; ++k)
      args[k] = uniform ? Vec{&scalar_, results_[x.args[k]].uniform} : operand(x.args[k], c);
    Vec y = emit_primitive(x.prim, nest_.insts[x.args[0]].dtype, x.dtype, {args, arity});
    if (uniform) return define(i, y.v);
    results_[i].copies.push_back(y.v);
  }
}

// Where the copy's vector of what an instruction gives is kept. All of its lanes, those past the end too.
llvm::Value* NestEmitter::kept_vector(size_t i, unsigned copy, llvm::Type* vector) {
  llvm::Type* element = vector->getScalarType();
  if (!kept_[i]) kept_[i] = stack_slot(b_, llvm::ArrayType::get(element, uint64_t{nest_.row_bound} + plan_.lanes));
  Value* first = b_.CreateAdd(index_[nest_.vector_dim()], b_.getInt64(copy * plan_.lanes));
  return b_.CreateGEP(element, kept_[i], first);
}
void NestEmitter::keep(size_t i, const Pass& pass) {
  for (unsigned c = 0; c < pass.copies; ++c) {
    Value* x = results_[i].copies[c];
    b_.CreateStore(x, kept_vector(i, c, x->getType()));
  }
}
void NestEmitter::recall(size_t i, const Pass& pass) {
  const size_t first = plan_.same[i];
  llvm::Type* vector = results_[first].copies.front()->getType();
  for (unsigned c = 0; c < pass.copies; ++c)
    results_[i].copies.push_back(b_.CreateLoad(vector, kept_vector(first, c, vector)));
}

// With an index that all lanes share, an indexed access is an ordinary one elsewhere.
llvm::Value* NestEmitter::uniform_address(const Inst& x, uint16_t index_inst) {
  const Access& a = nest_.accesses[x.slot];
  if (!a.indexed || !plan_.uniform[index_inst]) return address_[x.slot];
  Value* offset = b_.CreateMul(results_[index_inst].uniform, index_stride_[x.slot]);
  return b_.CreatePtrAdd(address_[x.slot], offset);
}

Place NestEmitter::place(const Inst& x, uint16_t index_inst, unsigned copy, const Pass& pass) {
  const Access& a = nest_.accesses[x.slot];
  const auto [count, mask] = pass.lanes(copy);
  if (a.across) return {.address = buffered_row(x.slot, row_), .count = count, .mask = mask};
  Place p{uniform_address(x, index_inst)};
  p.count = count;
  p.mask = mask;
  Value* first = b_.CreateAdd(index_[nest_.vector_dim()], b_.getInt64(copy * plan_.lanes));
  Value* bytes = b_.getInt64(static_cast<uint64_t>(ir::item_size(a.dtype)));
  if (a.stride == VectorStride::One) p.address = b_.CreatePtrAdd(p.address, b_.CreateMul(first, bytes));
  if (a.stride == VectorStride::Zero) p.stride = b_.getInt64(0);
  if (a.stride == VectorStride::Any || a.stride == VectorStride::Backward) {
    p.stride = stride_[x.slot][nest_.vector_dim()];
    p.backward = a.stride == VectorStride::Backward;
    p.address = b_.CreatePtrAdd(p.address, b_.CreateMul(first, p.stride));
  }
  if (a.stride == VectorStride::Two) {
    p.stride = b_.CreateShl(bytes, 1);
    p.address = b_.CreatePtrAdd(p.address, b_.CreateMul(first, p.stride));
  }
  if (a.stride == VectorStride::Two && (!a.indexed || plan_.uniform[index_inst])) {
    p.second = a.after != kAlone;
    p.alone = !p.second && a.before == kAlone;
    p.pairs = p.address;
    // By the address of the first ones if that has moved as far, so that both are taken from the same vectors.
    if (p.second && (x.row || nest_.reduced == 0 || is_used(x.stage, a.after)))
      p.pairs = b_.CreatePtrAdd(address_[a.after], b_.CreateMul(first, p.stride));
    else if (p.second)
      p.pairs = b_.CreatePtrAdd(p.address, b_.CreateNeg(bytes));
  }
  if (a.indexed && !plan_.uniform[index_inst]) {
    if (a.stride == VectorStride::One) p.stride = bytes;
    p.offsets = b_.CreateMul(operand(index_inst, copy).v, vector_.splat(index_stride_[x.slot]));
  }
  return p;
}

void NestEmitter::load(size_t i, const Pass& pass) {
  const Inst& x = nest_.insts[i];
  const ir::DType memory = nest_.accesses[x.slot].dtype;
  if (plan_.uniform[i]) return define(i, load_scalar(scalar_, memory, uniform_address(x, x.args[0])).v);
  if (Value** row = written_row(x.slot)) return results_[i].copies.push_back(widen({&vector_, *row}, memory).v);
  for (unsigned c = 0; c < pass.copies; ++c)
    results_[i].copies.push_back(load_vector(vector_, target_, memory, place(x, x.args[0], c, pass)).v);
}

// The store of the other elements of its pairs, beside which this one is done.
std::optional<size_t> NestEmitter::paired_store(size_t i) const {
  const Inst& x = nest_.insts[i];
  const Access& a = nest_.accesses[x.slot];
  const uint16_t other = a.after != kAlone ? a.after : a.before;
  for (size_t j = 0; j < nest_.insts.size() && other != kAlone; ++j) {
    const Inst& y = nest_.insts[j];
    if (y.code == Code::Store && y.slot == other && y.stage == x.stage && y.row == x.row) return j;
  }
  return {};
}

void NestEmitter::store(size_t i, const Pass& pass) {
  const Inst& x = nest_.insts[i];
  const ir::DType memory = nest_.accesses[x.slot].dtype;
  const Result& value = results_[x.args[0]];
  if (!column() && x.row)
    return store_scalar(scalar_, memory, uniform_address(x, x.args[1]), {&scalar_, value.uniform});
  if (Value** row = written_row(x.slot)) {
    *row = narrow(operand(x.args[0], 0), memory).v;
    return;
  }
  if (const auto other = paired_store(i)) {
    if (*other > i) return;
    const bool is_second = nest_.accesses[x.slot].after != kAlone;
    const Inst &first = nest_.insts[is_second ? *other : i], &second = nest_.insts[is_second ? i : *other];
    for (unsigned c = 0; c < pass.copies; ++c)
      store_pairs(vector_, target_, memory, place(first, 0, c, pass), operand(first.args[0], c),
                  operand(second.args[0], c));
    return;
  }
  for (unsigned c = 0; c < pass.copies; ++c)
    store_vector(vector_, target_, memory, place(x, x.args[1], c, pass), operand(x.args[0], c));
}

void NestEmitter::add_to_memory(size_t i, const Pass& pass) {
  const Inst& x = nest_.insts[i];
  const Vec first{&vector_, vector_.splat(first_point_)};
  for (unsigned c = 0; c < pass.copies; ++c) {
    const Place at = place(x, 0, c, pass);
    const Vec value = operand(x.args[0], c);
    store_vector(vector_, target_, x.dtype, at,
                 select(first, value, load_vector(vector_, target_, x.dtype, at) + value));
  }
}

// A branch that is never taken, rather than a flag carried along: it costs no register and waits for nothing.
void NestEmitter::check(size_t i, const Pass& pass) {
  const Inst& x = nest_.insts[i];
  Value* failed = results_[x.args[0]].uniform;
  if (!plan_.uniform[i]) {
    Vec all;
    for (unsigned c = 0; c < pass.copies; ++c) {
      Vec lanes = operand(x.args[0], c);
      if (Value* mask = pass.lanes(c).mask) lanes = lanes & lanes.with(mask);  // those past the end hold anything
      all = c ? all | lanes : lanes;
    }
    failed = any(all);
  }
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  auto* report = llvm::BasicBlock::Create(b_.getContext(), "failed", function);
  auto* next = llvm::BasicBlock::Create(b_.getContext(), "checked", function);
  b_.CreateCondBr(failed, report, next);
  b_.SetInsertPoint(report);
  // Atomic, since other threads may be failing too.
  Value* at = b_.CreateConstGEP1_64(b_.getInt64Ty(), status_, x.slot);
  llvm::StoreInst* word = b_.CreateAlignedStore(b_.getInt64(1), at, llvm::Align(8));
  word->setAtomic(llvm::AtomicOrdering::Monotonic);
  b_.CreateBr(next);
  b_.SetInsertPoint(next);
}

}  // namespace lazuli::lowering::cpu
