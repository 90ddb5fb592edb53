// Which points of the iteration space a thread takes, but for tiles.
#include "ir/error.h"
#include "lowering/targets/gpu/nest_emitter.h"
#include "lowering/targets/gpu/threads.h"
#include "lowering/targets/loop.h"
#include "lowering/targets/primitives.h"

namespace lazuli::lowering::gpu {

// Vectors in memory order over all threads of the grid; the passes of a block lie side by side.
void NestEmitter::flat() {
  llvm::SmallVector<Value*, 6> radix(size_.begin(), size_.end());
  radix.back() = vectors_;
  Value* count = radix[0];
  for (size_t d = 1; d < radix.size(); ++d) count = b_.CreateMul(count, radix[d]);
  Value* per_block = natural(int64_t{variant_.threads} * passes());
  Value* first = b_.CreateAdd(b_.CreateMul(natural(block_), per_block), natural(thread_));
  if (passes() == 1) {
    when(b_.CreateICmpULT(first, count), [&] {
      set_flat_point(0, first, radix);
      fix_addresses();
      all_stages();
    });
    return;
  }
  for (unsigned u = 0; u < passes(); ++u) {
    Value* vector = b_.CreateAdd(first, natural(int64_t{variant_.threads} * u));
    active_[u] = b_.CreateICmpULT(vector, count);
    // A point that exists stands in for one that does not: what it loads is there, and it stores nothing.
    set_flat_point(u, b_.CreateSelect(active_[u], vector, natural(0)), radix);
  }
  fix_addresses();
  all_stages();
}

void NestEmitter::set_flat_point(unsigned pass, Value* vector, llvm::ArrayRef<Value*> radix) {
  Values at = unravel(vector, radix);
  at.back() = b_.CreateNUWMul(at.back(), natural(lanes()));
  for (uint32_t d = 0; d < nest_.rank; ++d) {
    index_[d].resize(passes());
    index_[d][pass] = at[d];
  }
}

// `team` threads to a row; threads of no row do a row that exists once more and store nothing, so that all threads
// come to every barrier and shuffle.
void NestEmitter::rows() {
  const unsigned team = variant_.team, per_block = variant_.threads / team;
  team_lane_ = natural(per_block == 1 ? thread_ : b_.CreateAnd(thread_, b_.getInt32(team - 1)));
  Value* row = natural(block_);
  if (per_block > 1) {
    Value* in_block = natural(b_.CreateUDiv(thread_, b_.getInt32(team)));
    row = b_.CreateAdd(b_.CreateMul(row, natural(per_block)), in_block);
    point_active_ = b_.CreateICmpULT(row, kept_points());
    row = b_.CreateSelect(point_active_, row, natural(0));
  }
  leader_ = b_.CreateICmpEQ(team_lane_, natural(0));
  reduced_vectors_ = vectors_;
  for (uint32_t d = kept(); d + 1 < nest_.rank; ++d) reduced_vectors_ = b_.CreateMul(reduced_vectors_, size_[d]);
  if (accumulates_) return all_rows();
  set_row(row);
  fix_addresses();
  if (variant_.resident) set_reduced_points(natural(0));
  all_stages();
}

llvm::Value* NestEmitter::kept_points() {
  Value* points = natural(1);
  for (uint32_t d = 0; d < kept(); ++d) points = b_.CreateMul(points, size_[d]);
  return points;
}

void NestEmitter::set_row(Value* number) {
  const Values at = unravel(number, llvm::ArrayRef<Value*>(size_).take_front(kept()));
  for (uint32_t d = 0; d < kept(); ++d) index_[d] = {at[d]};
}

// One team, the block, does all rows of the launch or chunk, one behind the other. Each thread has the same columns in
// every row, and what they add up to in registers. What the next row loads is on its way while this one is computed.
void NestEmitter::all_rows() {
  LAZULI_CHECK(variant_.resident && variant_.team == variant_.threads,
               "sums across rows are for threads that hold a row");
  set_reduced_points(natural(0));
  const std::vector<Value*> before = address_;
  llvm::SmallVector<Value**, 8> carried;
  for (size_t i = 0; i < nest_.insts.size(); ++i) {
    if (nest_.insts[i].code != Code::Accumulate) continue;
    // Which changes no number that is added, be it -0.
    results_[i].assign(size_t{passes()} * lanes(), emit_literal(ir_, -0.0, nest_.insts[i].dtype).v);
    for (Value*& sum : results_[i]) carried.push_back(&sum);
  }
  auto go_to = [&](Value* number) {
    address_ = before;
    set_row(number);
    fix_addresses();
  };
  go_to(natural(0));
  std::vector<size_t> moving;  // loads, other than those that are the same for all rows
  for (size_t i = 0; i < nest_.insts.size(); ++i) {
    if (!is_ahead(i)) continue;
    run(i);
    if (nest_.insts[i].code == Code::Load && !nest_.accesses[nest_.insts[i].slot].still) moving.push_back(i);
  }
  std::vector<Values> loaded;  // by `moving`
  for (size_t i : moving) loaded.push_back(results_[i]);
  for (Values& values : loaded)
    for (Value*& x : values)
      if (x) carried.push_back(&x);
  Value* last = b_.CreateSub(kept_points(), natural(1));
  emit_loop(b_, "rows", natural(0), kept_points(), natural(1), carried, [&](Value* number) {
    // The last row stands in for the one behind it.
    go_to(b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, b_.CreateAdd(number, natural(1)), last));
    for (size_t m = 0; m < moving.size(); ++m) {
      const Values now = loaded[m];
      load(moving[m]);
      llvm::copy(results_[moving[m]], loaded[m].begin());
      results_[moving[m]] = now;
    }
    go_to(number);
    odd_row_ = b_.CreateAnd(number, natural(1));
    all_stages();
  });
  go_to(natural(0));
  for (uint16_t i = 0; i < nest_.insts.size(); ++i)
    if (nest_.insts[i].code == Code::Accumulate) store(nest_.insts[i], i);
}

// `team` threads side by side along the columns, the block's others below them down the reduced points.
void NestEmitter::columns() {
  const unsigned team = variant_.team;
  Value* side = natural(b_.CreateAnd(thread_, b_.getInt32(team - 1)));
  team_row_ = natural(b_.CreateUDiv(thread_, b_.getInt32(team)));
  leader_ = b_.CreateICmpEQ(team_row_, natural(0));
  llvm::SmallVector<Value*, 6> radix(size_.begin(), size_.begin() + kept());
  radix.back() = ceil_divided(vectors_, team);
  Values at = unravel(natural(block_), radix);
  Value* column = b_.CreateAdd(b_.CreateMul(at.back(), natural(team)), side);
  point_active_ = b_.CreateICmpULT(column, vectors_);
  at.back() = b_.CreateNUWMul(b_.CreateSelect(point_active_, column, natural(0)), natural(lanes()));
  for (uint32_t d = 0; d < kept(); ++d) index_[d].push_back(at[d]);
  reduced_vectors_ = natural(1);
  for (uint32_t d = kept(); d < nest_.rank; ++d) reduced_vectors_ = b_.CreateMul(reduced_vectors_, size_[d]);
  fix_addresses();
  all_stages();
}

}  // namespace lazuli::lowering::gpu
