// Writes loop nests by hand, for tests and benchmarks: instructions in order, by stage, row instructions first.
#pragma once
#include "lowering/nest/loop_nest.h"

namespace lazuli::testing {

class NestBuilder {
 public:
  using DType = ir::DType;
  using VectorStride = lowering::VectorStride;
  using Value = uint16_t;

  NestBuilder(lowering::Schedule schedule, uint8_t rank, uint8_t reduced) {
    nest_.schedule = schedule;
    nest_.rank = rank;
    nest_.reduced = reduced;
  }
  const lowering::LoopNest& nest() const { return nest_; }
  NestBuilder& stage() {
    ++nest_.stages;
    return *this;
  }
  // Instructions from here on run once per kept point, or per element.
  NestBuilder& row(bool on = true) {
    row_ = on;
    return *this;
  }

  Value load(DType memory, VectorStride stride = VectorStride::One, bool row_access = false) {
    return add({.code = lowering::Code::Load,
                .dtype = ir::compute_type(memory),
                .slot = access(memory, stride, row_access, false)});
  }
  Value load_at(DType memory, VectorStride stride, Value index) {
    const uint16_t slot = access(memory, stride, row_, false);
    nest_.accesses[slot].indexed = true;
    return add({.code = lowering::Code::Load, .dtype = ir::compute_type(memory), .slot = slot, .args = {index}});
  }
  // The same access as an earlier load, loaded again in a later stage.
  Value reload(Value earlier) {
    lowering::Inst x = nest_.insts[earlier];
    return add({.code = x.code, .dtype = x.dtype, .slot = x.slot, .args = {x.args[0]}});
  }
  void store(Value x, DType memory, VectorStride stride = VectorStride::One) {
    const uint16_t slot = access(memory, stride, row_, true);
    add({.code = lowering::Code::Store, .dtype = nest_.insts[x].dtype, .slot = slot, .args = {x}});
  }
  void check(Value failed) {
    add({.code = lowering::Code::Check, .dtype = DType::Bool, .slot = nest_.checks++, .args = {failed}});
  }
  Value literal(double value, DType t = DType::F32) {
    return add({.code = lowering::Code::Prim, .prim = ir::Prim::literal, .dtype = t, .value = value});
  }
  Value param(DType t) { return add({.code = lowering::Code::Param, .dtype = t, .slot = nest_.params++}); }
  Value position(uint16_t dim) { return add({.code = lowering::Code::Position, .dtype = DType::I64, .slot = dim}); }
  Value reduce(lowering::Reduce r, Value x, DType t) {
    return add({.code = lowering::Code::Reduce, .reduce = r, .dtype = t, .args = {x}});
  }
  Value convert(Value x, DType t) {
    return add({.code = lowering::Code::Prim, .prim = ir::Prim::convert, .dtype = t, .args = {x}});
  }
  Value prim(ir::Prim p, Value a, Value b = 0, Value c = 0) {
    DType t = nest_.insts[p == ir::Prim::select ? b : a].dtype;
    if (ir::info(p).result == ir::PrimResult::Bool) t = DType::Bool;
    return prim_as(p, t, a, b, c);
  }
  Value prim_as(ir::Prim p, DType result, Value a, Value b = 0, Value c = 0) {
    return add({.code = lowering::Code::Prim, .prim = p, .dtype = result, .args = {a, b, c}});
  }

 private:
  uint16_t access(DType memory, VectorStride stride, bool row, bool store) {
    nest_.accesses.push_back({memory, stride, row, store, false});
    return static_cast<uint16_t>(nest_.accesses.size() - 1);
  }
  Value add(lowering::Inst x) {
    x.stage = static_cast<uint8_t>(nest_.stages - 1);
    x.row = row_;
    nest_.insts.push_back(x);
    return static_cast<Value>(nest_.insts.size() - 1);
  }

  lowering::LoopNest nest_;
  bool row_ = false;
};

}  // namespace lazuli::testing
