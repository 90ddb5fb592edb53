// Column nests with heavy bodies: the loop over the reduced dimension outside, the vectors of a block inside, and their
// accumulators in memory, where they stay in the first-level cache.
#include "lowering/nest/schedules/launch.h"
#include "lowering/targets/cpu/nest_emitter.h"
#include "lowering/targets/loop.h"

namespace lazuli::lowering::cpu {
namespace {

struct Sums {
  size_t inst;  // the reduction
  // By column of the block: of all rows, then of each size of chunk if they are cut.
  llvm::SmallVector<llvm::Value*, 3> of;
};

}  // namespace

// One vector of columns a pass; `column` counts from the first.
void NestEmitter::columns_of(Value* first, Value* last, const std::function<void(const Pass&, Value*)>& body) {
  Value *lanes = b_.getInt64(plan_.lanes), *middle = first;
  auto loop = [&](Value* from, Value* to, const std::function<Pass(Value*)>& pass) {
    emit_loop(b_, "columns", from, to, lanes, {}, [&](Value* i) {
      index_[nest_.vector_dim()] = i;
      body(pass(i), b_.CreateSub(i, first));
    });
  };
  if (!plan_.masked_only) {
    middle = b_.CreateAdd(first, b_.CreateAnd(b_.CreateSub(last, first), b_.CreateNeg(lanes)));
    loop(first, middle, [](Value*) { return Pass{1}; });
  }
  loop(middle, last, [&](Value* i) { return partial_pass(b_.CreateSub(last, i)); });
}

void NestEmitter::row_by_row(Value* first, Value* last) {
  unsigned stage = 0;
  while (!loops(stage)) ++stage;
  auto type_of = [&](size_t inst) { return nest_.insts[inst].dtype; };
  auto address = [&](Value* memory, size_t inst, Value* column) {
    return b_.CreateInBoundsGEP(scalar_.type(type_of(inst)), memory, column);
  };
  auto read = [&](Value* memory, size_t inst, Value* column) {
    return b_.CreateLoad(vector_.type(type_of(inst)), address(memory, inst, column));
  };
  auto write = [&](Value* v, Value* memory, size_t inst, Value* column) {
    b_.CreateStore(v, address(memory, inst, column));
  };
  auto neutral = [&](size_t inst) { return start_reduction(vector_, nest_.insts[inst].reduce, type_of(inst)).value; };

  std::vector<Sums> sums;
  {
    llvm::IRBuilder<>::InsertPointGuard guard(b_);
    b_.SetInsertPoint(&function_->getEntryBlock(), function_->getEntryBlock().begin());
    auto memory = [&](size_t inst) {
      auto* a = b_.CreateAlloca(llvm::ArrayType::get(scalar_.type(type_of(inst)), kMostColumns));
      a->setAlignment(llvm::Align(64));
      return a;
    };
    for (size_t i = 0; i < nest_.insts.size(); ++i) {
      const Inst& x = nest_.insts[i];
      if (x.code != Code::Reduce) continue;
      Sums& s = sums.emplace_back(Sums{i, {memory(i)}});
      if (x.reduce == Reduce::Sum)
        for (size_t k = 0; k < kChunks.size(); ++k) s.of.push_back(memory(i));
    }
  }

  const uint32_t dim = nest_.rank - 1u;
  auto block = [&](Value* from, Value* to) {
    columns_of(from, to, [&](const Pass&, Value* column) {
      for (const Sums& s : sums) write(neutral(s.inst), s.of[0], s.inst, column);
    });
    const std::vector<Value*> before = address_;
    llvm::SmallVector<Value**, 8> carried;
    for (size_t a = 0; a < address_.size(); ++a)
      if (stride_[a][dim] && is_used(stage, a)) carried.push_back(&address_[a]);
    auto one_row = [&](Value* row) {
      index_[dim] = row;
      columns_of(from, to, [&](const Pass& pass, Value* column) {
        row_insts(stage, pass);
        for (const Sums& s : sums) accumulators_[s.inst].assign(1, {read(s.of.back(), s.inst, column), nullptr});
        elements(stage, pass);
        for (const Sums& s : sums) write(accumulators_[s.inst][0].value, s.of.back(), s.inst, column);
      });
      for (size_t a = 0; a < address_.size(); ++a)
        if (stride_[a][dim] && is_used(stage, a)) address_[a] = b_.CreatePtrAdd(address_[a], stride_[a][dim]);
    };
    auto rows = [&](auto& self, Value* row, Value* end, size_t level) -> void {
      if (level == kChunks.size()) return emit_loop(b_, "rows", row, end, b_.getInt64(1), carried, one_row);
      Value* rows_of_chunk = b_.getInt64(kChunks[level]);
      emit_loop(b_, "chunk", row, end, rows_of_chunk, carried, [&](Value* first_row) {
        columns_of(from, to, [&](const Pass&, Value* column) {
          for (const Sums& s : sums)
            if (s.of.size() > 1) write(neutral(s.inst), s.of[level + 1], s.inst, column);
        });
        self(self, first_row,
             b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateAdd(first_row, rows_of_chunk), end), level + 1);
        columns_of(from, to, [&](const Pass&, Value* column) {
          for (const Sums& s : sums) {
            if (s.of.size() == 1) continue;
            Value* sum = b_.CreateFAdd(read(s.of[level], s.inst, column), read(s.of[level + 1], s.inst, column));
            write(sum, s.of[level], s.inst, column);
          }
        });
      });
    };
    rows(rows, b_.getInt64(0), size_[dim], 0);
    address_ = before;
    columns_of(from, to, [&](const Pass& pass, Value* column) {
      for (unsigned k = 0; k < nest_.stages; ++k) {
        row_insts(k, pass);
        if (k != stage) continue;
        for (const Sums& s : sums) {
          const Accumulator a{read(s.of[0], s.inst, column), nullptr};
          results_[s.inst] = {};
          results_[s.inst].copies.assign(1, reduction_result(vector_, nest_.insts[s.inst].reduce, a));
        }
      }
    });
    for (const Sums& s : sums) accumulators_[s.inst].clear();
  };
  emit_loop(b_, "block", first, last, b_.getInt64(kMostColumns), {}, [&](Value* from) {
    block(from, b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateAdd(from, b_.getInt64(kMostColumns)), last));
  });
}

}  // namespace lazuli::lowering::cpu
