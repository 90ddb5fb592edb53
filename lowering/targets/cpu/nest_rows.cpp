// Column nests with heavy bodies: the loop over the reduced dimension outside, the vectors of a block inside, and their
// accumulators in memory, where they stay in the first-level cache.
#include "lowering/nest/schedules/launch.h"
#include "lowering/targets/cpu/nest_emitter.h"
#include "lowering/targets/loop.h"

namespace lazuli::lowering::cpu {

// What the reductions have summed up so far, for each column of a block: of all rows (level 0), and where rows are cut
// into chunks, of the current chunk of each size (levels 1 and up).
class NestEmitter::ColumnSums {
 public:
  explicit ColumnSums(NestEmitter& e) : e_(e), b_(e.b_) {
    llvm::IRBuilder<>::InsertPointGuard guard(b_);
    b_.SetInsertPoint(&e_.function_->getEntryBlock(), e_.function_->getEntryBlock().begin());
    for (size_t i = 0; i < e_.nest_.insts.size(); ++i) {
      const Inst& x = e_.nest_.insts[i];
      if (x.code != Code::Reduce) continue;
      Sum& s = sums_.emplace_back(Sum{i, {allocated(i)}});
      if (x.reduce == Reduce::Sum)
        for (size_t k = 0; k < kChunks.size(); ++k) s.levels.push_back(allocated(i));
    }
  }

  // Each does its work for the vector at one column.
  void start(size_t level, Value* column) const {
    for (const Sum& s : sums_)
      if (level < s.levels.size())
        write(start_reduction(e_.vector_, e_.nest_.insts[s.inst].reduce, type(s)).value, s, level, column);
  }
  // Into the emitter's accumulators and back, of the smallest chunks.
  void take(Value* column) const {
    for (const Sum& s : sums_) e_.accumulators_[s.inst].assign(1, {read(s, s.levels.size() - 1, column), nullptr});
  }
  void give_back(Value* column) const {
    for (const Sum& s : sums_) write(e_.accumulators_[s.inst][0].value, s, s.levels.size() - 1, column);
  }
  // A chunk of this level is done.
  void add_chunk(size_t level, Value* column) const {
    for (const Sum& s : sums_) {
      if (level >= s.levels.size()) continue;
      Value* sum = b_.CreateFAdd(read(s, level - 1, column), read(s, level, column));
      write(sum, s, level - 1, column);
    }
  }
  void finish(Value* column) const {
    for (const Sum& s : sums_) {
      const Accumulator a{read(s, 0, column), nullptr};
      e_.results_[s.inst] = {};
      e_.results_[s.inst].copies.assign(1, reduction_result(e_.vector_, e_.nest_.insts[s.inst].reduce, a));
    }
  }
  void forget() const {
    for (const Sum& s : sums_) e_.accumulators_[s.inst].clear();
  }

 private:
  struct Sum {
    size_t inst;                                // the reduction
    llvm::SmallVector<llvm::Value*, 3> levels;  // memory by column
  };

  Value* allocated(size_t inst) const {
    auto* a = b_.CreateAlloca(llvm::ArrayType::get(e_.scalar_.type(e_.nest_.insts[inst].dtype), kMostColumns));
    a->setAlignment(llvm::Align(64));
    return a;
  }
  ir::DType type(const Sum& s) const { return e_.nest_.insts[s.inst].dtype; }
  Value* address(const Sum& s, size_t level, Value* column) const {
    return b_.CreateInBoundsGEP(e_.scalar_.type(type(s)), s.levels[level], column);
  }
  Value* read(const Sum& s, size_t level, Value* column) const {
    return b_.CreateLoad(e_.vector_.type(type(s)), address(s, level, column));
  }
  void write(Value* v, const Sum& s, size_t level, Value* column) const {
    b_.CreateStore(v, address(s, level, column));
  }

  NestEmitter& e_;
  llvm::IRBuilder<>& b_;
  std::vector<Sum> sums_;
};

// Columns [first, last), at most kMostColumns, of the stage that reduces.
struct NestEmitter::ColumnBlock {
  Value *first, *last;
  unsigned stage;
  const ColumnSums& sums;
  llvm::SmallVector<Value**, 8> moving;  // addresses that differ from row to row
};

// One vector of columns a pass; `column` counts from the first.
void NestEmitter::columns_of(const ColumnBlock& block, const std::function<void(const Pass&, Value*)>& body) {
  Value *lanes = b_.getInt64(plan_.lanes), *middle = block.first;
  auto loop = [&](Value* from, Value* to, const std::function<Pass(Value*)>& pass) {
    emit_loop(b_, "columns", from, to, lanes, {}, [&](Value* i) {
      index_[nest_.vector_dim()] = i;
      body(pass(i), b_.CreateSub(i, block.first));
    });
  };
  if (!plan_.masked_only) {
    middle = b_.CreateAdd(block.first, b_.CreateAnd(b_.CreateSub(block.last, block.first), b_.CreateNeg(lanes)));
    loop(block.first, middle, [](Value*) { return Pass{1, {}}; });
  }
  loop(middle, block.last, [&](Value* i) { return partial_pass(b_.CreateSub(block.last, i)); });
}

void NestEmitter::one_row(const ColumnBlock& block, Value* row) {
  const uint32_t dim = nest_.rank - 1u;
  index_[dim] = row;
  columns_of(block, [&](const Pass& pass, Value* column) {
    row_insts(block.stage, pass);
    block.sums.take(column);
    elements(block.stage, pass);
    block.sums.give_back(column);
  });
  for (size_t a = 0; a < address_.size(); ++a)
    if (moves_from_row_to_row(block.stage, a)) address_[a] = b_.CreatePtrAdd(address_[a], stride_[a][dim]);
}

// In chunks of kChunks[level] rows, which are cut further.
void NestEmitter::rows_in_chunks(const ColumnBlock& block, Value* row, Value* end, size_t level) {
  if (level == kChunks.size())
    return emit_loop(b_, "rows", row, end, b_.getInt64(1), block.moving, [&](Value* r) { one_row(block, r); });
  Value* rows = b_.getInt64(kChunks[level]);
  emit_loop(b_, "chunk", row, end, rows, block.moving, [&](Value* first) {
    columns_of(block, [&](const Pass&, Value* column) { block.sums.start(level + 1, column); });
    rows_in_chunks(block, first, b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateAdd(first, rows), end),
                   level + 1);
    columns_of(block, [&](const Pass&, Value* column) { block.sums.add_chunk(level + 1, column); });
  });
}

void NestEmitter::column_block(const ColumnBlock& block) {
  columns_of(block, [&](const Pass&, Value* column) { block.sums.start(0, column); });
  const std::vector<Value*> before = address_;
  rows_in_chunks(block, b_.getInt64(0), size_[nest_.rank - 1u], 0);
  address_ = before;
  columns_of(block, [&](const Pass& pass, Value* column) {
    for (unsigned k = 0; k < nest_.stages; ++k) {
      row_insts(k, pass);
      if (k == block.stage) block.sums.finish(column);
    }
  });
  block.sums.forget();
}

bool NestEmitter::moves_from_row_to_row(unsigned stage, size_t access) const {
  return stride_[access][nest_.rank - 1u] && is_used(stage, access);
}

void NestEmitter::row_by_row(Value* first, Value* last) {
  unsigned stage = 0;
  while (!loops(stage)) ++stage;
  const ColumnSums sums(*this);
  llvm::SmallVector<Value**, 8> moving;
  for (size_t a = 0; a < address_.size(); ++a)
    if (moves_from_row_to_row(stage, a)) moving.push_back(&address_[a]);
  Value* most = b_.getInt64(kMostColumns);
  emit_loop(b_, "block", first, last, most, {}, [&](Value* from) {
    Value* to = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateAdd(from, most), last);
    column_block({from, to, stage, sums, moving});
  });
}

}  // namespace lazuli::lowering::cpu
