#include "lowering/targets/gpu/nest_plan.h"

namespace lazuli::lowering::gpu {

namespace {

// The position of a load or store in memory, its index aside.
Varies address_varies(const LoopNest& nest, const Inst& x) {
  const Access& a = nest.accesses[x.slot];
  const bool moves = a.stride != VectorStride::Zero, still = x.row || a.row;
  if (nest.schedule == Schedule::Row) return still ? Varies{} : Varies{moves, moves || nest.reduced > 1};
  // Passes of a Column nest go down the reduced points or, where there are none, on along the vector dimension.
  return {moves, nest.reduced > 0 ? !still : moves || nest.rank > 1};
}

Varies position_varies(const LoopNest& nest, uint32_t dim) {
  const bool reduced = dim + nest.reduced >= nest.rank, vector = dim == nest.vector_dim();
  return {vector, reduced || nest.reduced == 0};
}

Varies varies_of(const LoopNest& nest, const Inst& x, const std::vector<Varies>& varies) {
  Varies v;
  if (x.code == Code::Accumulate) return {true, true};
  if (x.code == Code::Reduce) return {nest.schedule == Schedule::Column, false};
  for (int k = 0; k < operand_count(nest, x); ++k) v = v | varies[x.args[k]];
  if (x.code == Code::Position) return position_varies(nest, x.slot);
  if (x.code == Code::Load || x.code == Code::Store) return v | address_varies(nest, x);
  return v;
}

}  // namespace

std::vector<Varies> find_varying(const LoopNest& nest) {
  std::vector<Varies> varies;
  for (const Inst& x : nest.insts) varies.push_back(varies_of(nest, x, varies));
  return varies;
}

bool is_dense(const LoopNest& nest, const std::vector<Varies>& varies, const Inst& x) {
  const Access& a = nest.accesses[x.slot];
  if (a.stride != VectorStride::One) return false;
  if (nest.schedule == Schedule::Row && (x.row || a.row)) return false;
  return !a.indexed || !varies[x.args[x.code == Code::Store ? 1 : 0]].lane;
}

std::vector<uint16_t> find_repeated(const LoopNest& nest) {
  std::vector<uint16_t> first(nest.insts.size());
  std::vector<Inst> seen;
  for (uint16_t i = 0; i < nest.insts.size(); ++i) {
    Inst x = nest.insts[i];
    x.stage = 0;
    for (int k = 0; k < operand_count(nest, x); ++k) x.args[k] = first[x.args[k]];
    for (int k = operand_count(nest, x); k < 3; ++k) x.args[k] = 0;
    seen.push_back(x);
    first[i] = i;
    if (x.row || x.code == Code::Reduce || x.code == Code::Store || x.code == Code::Accumulate) continue;
    for (uint16_t j = 0; j < i && first[i] == i; ++j)
      if (seen[j] == x) first[i] = first[j];
  }
  return first;
}

}  // namespace lazuli::lowering::gpu
