// Joining what the threads of a team have accumulated. Every thread of the team ends up with the same result, bit for
// bit, since each joins the same parts in the same order or pairwise with operands swapped.
#include "lowering/targets/gpu/nest_emitter.h"
#include "lowering/targets/gpu/threads.h"

namespace lazuli::lowering::gpu {
namespace {

constexpr unsigned kWarp = 32;
constexpr uint64_t kRowSlots = kWarp * 16;  // bytes for one accumulator of each warp of a block

// Truth values are a byte there.
llvm::Type* slot_type(llvm::IRBuilder<>& b, llvm::Type* type) { return type->isIntegerTy(1) ? b.getInt8Ty() : type; }

uint64_t slot_bytes(const Accumulator& a) {
  if (a.position) return 16;
  return std::max(4u, a.value->getType()->getScalarSizeInBits() / 8);
}

}  // namespace

void NestEmitter::put(Value* base, Value* slot, const Accumulator& a) {
  Value* at = b_.CreateGEP(b_.getInt8Ty(), base, b_.CreateMul(slot, b_.getInt32(static_cast<uint32_t>(slot_bytes(a)))));
  b_.CreateStore(b_.CreateZExtOrBitCast(a.value, slot_type(b_, a.value->getType())), at);
  if (a.position) b_.CreateStore(a.position, b_.CreateConstGEP1_64(b_.getInt8Ty(), at, 8));
}

Accumulator NestEmitter::get(Value* base, Value* slot, const Accumulator& like) {
  Value* at =
      b_.CreateGEP(b_.getInt8Ty(), base, b_.CreateMul(slot, b_.getInt32(static_cast<uint32_t>(slot_bytes(like)))));
  llvm::Type* type = like.value->getType();
  Accumulator a{b_.CreateLoad(slot_type(b_, type), at), nullptr};
  if (type->isIntegerTy(1)) a.value = b_.CreateTrunc(a.value, type);
  if (like.position) a.position = b_.CreateLoad(b_.getInt64Ty(), b_.CreateConstGEP1_64(b_.getInt8Ty(), at, 8));
  return a;
}

void NestEmitter::team_barrier() {
  if (variant_.mapping == GpuMapping::Rows && variant_.team <= kWarp)
    warp_barrier(b_);
  else
    block_barrier(b_);
  unsynced_loads_ = false;
}

Accumulator NestEmitter::join_warp(const Inst& x, Accumulator a, unsigned from, unsigned to) {
  for (unsigned distance = from; distance < to; distance *= 2) {
    const Accumulator other{exchange(b_, a.value, distance), a.position ? exchange(b_, a.position, distance) : nullptr};
    a = join(ir_, x.reduce, accumulated_type(x), a, other);
  }
  return a;
}

uint64_t NestEmitter::reduction_slots() const {
  return kRowSlots *
         std::count_if(nest_.insts.begin(), nest_.insts.end(), [](const Inst& x) { return x.code == Code::Reduce; });
}

// A row's accumulators: of a thread's lanes, of its warp, then of the block's warps through shared memory, where each
// reduction of the nest has a place of its own, so that one barrier is enough.
void NestEmitter::join_rows(llvm::ArrayRef<size_t> reduces) {
  const unsigned team = variant_.team, warps = team / kWarp;
  auto place = [&](size_t i) {
    size_t before = 0;
    for (size_t k = 0; k < i; ++k) before += nest_.insts[k].code == Code::Reduce;
    Value* at = b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), shared_, before * kRowSlots);
    // Rows take turns, so that a thread that is done with one need not wait for those that are not.
    if (!odd_row_) return at;
    return b_.CreateGEP(b_.getInt8Ty(), at, b_.CreateMul(odd_row_, natural(static_cast<int64_t>(reduction_slots()))));
  };
  for (size_t i : reduces) {
    const Inst& x = nest_.insts[i];
    auto& parts = accumulators_[i];
    for (size_t n = parts.size() / 2; n > 0; n /= 2)
      for (size_t k = 0; k < n; ++k) parts[k] = join(ir_, x.reduce, accumulated_type(x), parts[k], parts[k + n]);
    parts.resize(1);
    parts[0] = join_warp(x, parts[0], 1, std::min(team, kWarp));
  }
  if (warps <= 1 || reduces.empty()) return;
  if (!shared_) {
    shared_ = shared_memory(b_, reduction_slots() * (accumulates_ ? 2 : 1));
  }
  Value* in_warp = b_.CreateAnd(thread_, b_.getInt32(kWarp - 1));
  when(b_.CreateICmpEQ(in_warp, b_.getInt32(0)), [&] {
    for (size_t i : reduces) put(place(i), b_.CreateLShr(thread_, b_.getInt32(5)), accumulators_[i][0]);
  });
  team_barrier();
  Value* other = b_.CreateAnd(thread_, b_.getInt32(warps - 1));
  for (size_t i : reduces)
    accumulators_[i][0] = join_warp(nest_.insts[i], get(place(i), other, accumulators_[i][0]), 1, warps);
}

// The accumulators of the threads below each other: of those in one warp first, then of the warps.
void NestEmitter::join_columns(size_t reduce) {
  const unsigned team = variant_.team, warps = variant_.threads / kWarp;
  const Inst& x = nest_.insts[reduce];
  for (Accumulator& a : accumulators_[reduce]) a = join_warp(x, a, team, kWarp);
  if (warps == 1) return;
  const uint64_t slots = uint64_t{lanes()} * warps * team;
  if (!shared_) {
    uint64_t widest = 4;
    for (const Inst& r : nest_.insts)
      if (r.code == Code::Reduce)
        widest = std::max<uint64_t>(widest, is_arg(r.reduce) ? 16 : static_cast<uint64_t>(ir::item_size(r.dtype)));
    shared_ = shared_memory(b_, slots * widest);
  }
  // What the reduction before left there has been read.
  team_barrier();
  Value* in_warp = b_.CreateAnd(thread_, b_.getInt32(kWarp - 1));
  Value* warp = b_.CreateLShr(thread_, b_.getInt32(5));
  Value* side = b_.CreateAnd(thread_, b_.getInt32(team - 1));
  auto slot = [&](unsigned lane, Value* of_warp) {
    Value* row = b_.CreateAdd(b_.CreateMul(of_warp, b_.getInt32(lanes())), b_.getInt32(lane));
    return b_.CreateAdd(b_.CreateMul(row, b_.getInt32(team)), side);
  };
  when(team < kWarp ? b_.CreateICmpULT(in_warp, b_.getInt32(team)) : nullptr, [&] {
    for (unsigned c = 0; c < lanes(); ++c) put(shared_, slot(c, warp), accumulators_[reduce][c]);
  });
  team_barrier();
  for (unsigned c = 0; c < lanes(); ++c) {
    Accumulator& a = accumulators_[reduce][c];
    const Accumulator like = a;
    a = get(shared_, slot(c, b_.getInt32(0)), like);
    for (unsigned w = 1; w < warps; ++w)
      a = join(ir_, x.reduce, accumulated_type(x), a, get(shared_, slot(c, b_.getInt32(w)), like));
  }
}

}  // namespace lazuli::lowering::gpu
