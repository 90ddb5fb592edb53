// The instructions of a nest.
#include "lowering/targets/gpu/nest_emitter.h"
#include "lowering/targets/gpu/short_math.h"
#include "lowering/targets/primitives.h"

namespace lazuli::lowering::gpu {

void NestEmitter::run(size_t i) {
  const Inst& x = nest_.insts[i];
  if (!first_.empty() && first_[i] != i) {
    results_[i] = results_[first_[i]];
    return;
  }
  if (odd_row_ && is_ahead(i)) return;
  switch (x.code) {
    case Code::Prim:
      return primitive(i);
    case Code::Load:
      return load(i);
    case Code::Store:
      return store(x, x.args[0]);
    case Code::Accumulate:
      return add_to_sum(i);
    case Code::Reduce:
      return accumulate(i);
    case Code::Check:
      return check(i);
    case Code::Param:
      return for_copies(
          {},
          [&](unsigned, unsigned) {
            // Floating numbers arrive as doubles, the others as int64.
            const bool floating = ir::is_floating(x.dtype);
            Value* bits = floating ? b_.CreateBitCast(param_[x.slot], b_.getDoubleTy()) : param_[x.slot];
            return emit_convert({&ir_, bits}, floating ? ir::DType::F64 : ir::DType::I64, x.dtype).v;
          },
          i);
    case Code::Position:
      return for_copies(
          varies_[i],
          [&](unsigned u, unsigned c) {
            const Values& at = index_[x.slot];
            Value* first = b_.CreateSExt(at[at.size() == 1 ? 0 : u], b_.getInt64Ty());
            return c ? b_.CreateAdd(first, b_.getInt64(c)) : first;
          },
          i);
  }
}

void NestEmitter::for_copies(Varies varies, const std::function<Value*(unsigned, unsigned)>& make, size_t i) {
  results_[i].assign(size_t{passes()} * lanes(), nullptr);
  for (unsigned u = 0; u < (varies.pass ? passes() : 1); ++u)
    for (unsigned c = 0; c < (varies.lane ? lanes() : 1); ++c) results_[i][u * lanes() + c] = make(u, c);
}

llvm::Value* NestEmitter::operand(uint16_t inst, unsigned pass, unsigned lane) const {
  const Varies v = varies_[inst];
  return results_[inst][(v.pass ? pass : 0) * lanes() + (v.lane ? lane : 0)];
}

void NestEmitter::primitive(size_t i) {
  const Inst& x = nest_.insts[i];
  for_copies(
      varies_[i],
      [&](unsigned u, unsigned c) {
        if (x.prim == ir::Prim::literal) return emit_literal(ir_, x.value, x.dtype).v;
        Vec args[3];
        const unsigned arity = static_cast<unsigned>(ir::info(x.prim).arity);
        for (unsigned k = 0; k < arity; ++k) args[k] = {&ir_, operand(x.args[k], u, c)};
        if (precision_[i] != Precision::Full)
          if (const Vec y = short_form(i, {args, arity}, u, c); y.v) return y.v;
        return emit_primitive(x.prim, nest_.insts[x.args[0]].dtype, x.dtype, {args, arity}).v;
      },
      i);
}

// Without a value where there is none.
Vec NestEmitter::short_form(size_t i, std::span<const Vec> args, unsigned pass, unsigned lane) {
  const Inst& x = nest_.insts[i];
  auto is = [&](uint16_t k, ir::Prim prim) { return nest_.insts[k].code == Code::Prim && nest_.insts[k].prim == prim; };
  auto is_one = [&](uint16_t k) { return is(k, ir::Prim::literal) && nest_.insts[k].value == 1; };
  // The function that instruction k is, and its argument.
  auto with_function = [&](uint16_t k, auto&& make) -> Vec {
    const Inst& f = nest_.insts[k];
    if (f.code != Code::Prim || ir::info(f.prim).arity != 1) return {};
    return make(f.prim, Vec{&ir_, operand(f.args[0], pass, lane)}, precision_[i]);
  };
  if (x.prim == ir::Prim::add && is_one(x.args[0])) return with_function(x.args[1], short_one_plus);
  if (x.prim == ir::Prim::add && is_one(x.args[1])) return with_function(x.args[0], short_one_plus);
  if (x.prim == ir::Prim::sub && is_one(x.args[0]) && is(x.args[1], ir::Prim::mul)) {
    const Inst& square = nest_.insts[x.args[1]];
    return square.args[0] == square.args[1] ? with_function(square.args[0], short_one_minus_square) : Vec{};
  }
  return short_primitive(x.prim, args, precision_[i]);
}

llvm::Value* NestEmitter::lane_exists(unsigned pass, unsigned lane) {
  if (!variant_.ragged || lane == 0) return nullptr;
  const Values& at = index_[vector_dim()];
  Value* index = b_.CreateAdd(at[at.size() == 1 ? 0 : pass], natural(lane));
  return b_.CreateICmpULT(index, size_[vector_dim()]);
}

// In place of a lane that does not exist, the first one: it always does.
llvm::Value* NestEmitter::address(const Inst& x, uint16_t index_inst, unsigned pass, unsigned lane) {
  const Access& a = nest_.accesses[x.slot];
  llvm::Type* element = b_.getIntNTy(static_cast<unsigned>(ir::item_size(a.dtype)) * 8);
  Value *p = address_[x.slot], *offset = nullptr, *exists = lane_exists(pass, lane);
  for (uint32_t d = 0; d < (x.row ? kept() : nest_.rank); ++d) {
    if (fixed_[d] || !stride_[x.slot][d]) continue;
    Value* step = b_.CreateNSWMul(index_[d][pass], stride_[x.slot][d]);
    offset = offset ? b_.CreateNSWAdd(offset, step) : step;
  }
  if (offset) p = b_.CreateGEP(element, p, offset);
  if (a.indexed) {
    Value* index = operand(index_inst, pass, lane);
    if (exists && varies_[index_inst].lane) index = b_.CreateSelect(exists, index, operand(index_inst, pass, 0));
    p = b_.CreateGEP(element, p, b_.CreateMul(index, index_stride_[x.slot]));
  }
  Value* stride = lane && (!x.row || vector_dim() < kept()) ? stride_[x.slot][vector_dim()] : nullptr;
  if (!stride) return p;
  Value* number = natural(lane);
  if (exists) number = b_.CreateSelect(exists, number, natural(0));
  return b_.CreateGEP(element, p, b_.CreateMul(number, stride));
}

void NestEmitter::load(size_t i) {
  const Inst& x = nest_.insts[i];
  const ir::DType memory = nest_.accesses[x.slot].dtype;
  unsynced_loads_ = true;
  if (is_tiled(x.slot)) {
    results_[i] = load_tiled(x);
    return;
  }
  if (lanes() == 1 || !varies_[i].lane || !is_dense(nest_, varies_, x)) {
    return for_copies(
        varies_[i], [&](unsigned u, unsigned c) { return load_one(ir_, memory, address(x, x.args[0], u, c)); }, i);
  }
  results_[i].clear();
  for (unsigned u = 0; u < (varies_[i].pass ? passes() : 1); ++u)
    results_[i].append(load_neighbours(ir_, memory, address(x, x.args[0], u, 0), lanes()));
}

// Of what the thread's columns add up to, which is stored when all rows are done.
void NestEmitter::add_to_sum(size_t i) {
  const Inst& x = nest_.insts[i];
  for (unsigned u = 0; u < passes(); ++u)
    for (unsigned c = 0; c < lanes(); ++c) {
      Value*& sum = results_[i][u * lanes() + c];
      sum = ir::is_floating(x.dtype) ? b_.CreateFAdd(sum, operand(x.args[0], u, c))
                                     : b_.CreateAdd(sum, operand(x.args[0], u, c));
    }
}

// `value`: the instruction whose results are stored.
void NestEmitter::store(const Inst& x, uint16_t value) {
  const ir::DType memory = nest_.accesses[x.slot].dtype;
  const bool row = x.row && nest_.reduced > 0;
  if (is_tiled(x.slot)) return store_tiled(x);
  // One thread stores over what the others of its team may still have to load.
  if (row && unsynced_loads_) team_barrier();
  const bool one_lane = row && variant_.mapping == GpuMapping::Rows;
  auto store_lane = [&](unsigned u, unsigned c) {
    when(lane_exists(u, c), [&] { store_one(ir_, memory, address(x, x.args[1], u, c), operand(value, u, c)); });
  };
  auto store_lanes = [&](unsigned u) {
    for (unsigned c = 0; c < (one_lane ? 1 : lanes()); ++c) store_lane(u, c);
  };
  for (unsigned u = 0; u < (row ? 1 : passes()); ++u) {
    when(both(point_active_, row ? leader_ : active_[u]), [&] {
      if (one_lane || lanes() == 1 || !is_dense(nest_, varies_, x)) return store_lanes(u);
      auto store_all = [&] {
        Values values;
        for (unsigned c = 0; c < lanes(); ++c) values.push_back(operand(value, u, c));
        store_neighbours(ir_, memory, address(x, x.args[1], u, 0), values);
      };
      Value* whole = lane_exists(u, lanes() - 1);
      if (!whole) return store_all();
      when(whole, store_all);
      when(b_.CreateNot(whole), [&] { store_lanes(u); });
    });
  }
}

// Threads may write at once: whichever is last, its check has failed.
void NestEmitter::check(size_t i) {
  const Inst& x = nest_.insts[i];
  const Varies varies = varies_[x.args[0]];
  for (unsigned u = 0; u < (varies.pass ? passes() : 1); ++u)
    for (unsigned c = 0; c < (varies.lane ? lanes() : 1); ++c) {
      const bool row = x.row && nest_.reduced > 0;
      Value* exists = both(both(point_active_, row ? nullptr : active_[u]), lane_exists(u, c));
      when(both(exists, operand(x.args[0], u, c)), [&] {
        Value* status = b_.CreateIntToPtr(argument(layout_.status), b_.getPtrTy(1));
        b_.CreateAlignedStore(b_.getInt64(x.slot + 1), status, llvm::Align(8), /*isVolatile=*/true);
      });
    }
}

}  // namespace lazuli::lowering::gpu
