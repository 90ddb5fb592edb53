// Tiled nests: squares of as many rows (of the tile dimension) as a vector has lanes. What is dense along the rows is
// turned round in blocks that fit into registers, before the instructions run, or after. Where they are few, all rows
// of a square are written out, and its operands stay in registers; otherwise, and for the squares at the edges, there
// is a loop over rows, and operands wait in a small buffer on the stack.
#include <llvm/IR/Intrinsics.h>

#include "lowering/targets/cpu/nest_emitter.h"
#include "lowering/targets/cpu/transpose.h"
#include "lowering/targets/loop.h"
#include "lowering/targets/memory_types.h"

namespace lazuli::lowering::cpu {
namespace {

using llvm::Value;

Value* smaller(llvm::IRBuilder<>& b, Value* x, Value* y) {
  return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y);
}

// Lanes [first, first + n) of x.
Value* piece(llvm::IRBuilder<>& b, Value* x, unsigned first, unsigned n) {
  llvm::SmallVector<int, 64> mask;
  for (unsigned i = 0; i < n; ++i) mask.push_back(static_cast<int>(first + i));
  return b.CreateShuffleVector(x, mask);
}

// One behind the other; a power of two of them.
Value* joined(llvm::IRBuilder<>& b, llvm::ArrayRef<Value*> parts) {
  if (parts.size() == 1) return parts[0];
  Value* x = joined(b, parts.take_front(parts.size() / 2));
  Value* y = joined(b, parts.drop_front(parts.size() / 2));
  llvm::SmallVector<int, 64> mask;
  for (unsigned i = 0; i < 2 * llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements(); ++i)
    mask.push_back(static_cast<int>(i));
  return b.CreateShuffleVector(x, y, mask);
}

}  // namespace

// Rows [row, rows) and lanes [lane, lanes): whole squares without masks, those at the edges with them.
void NestEmitter::squares(Value* row, Value* rows, Value* lane, Value* lanes) {
  Value* step = b_.getInt64(plan_.lanes);
  turned_.resize(nest_.accesses.size());
  for (size_t a = 0; a < nest_.accesses.size(); ++a)
    if (nest_.accesses[a].across) turned_[a].buffer = square_buffer(nest_.accesses[a].dtype);
  emit_loop(b_, "square.rows", row, rows, step, {}, [&](Value* r) {
    emit_loop(b_, "square.lanes", lane, lanes, step, {}, [&](Value* l) {
      const Square s{r, l, smaller(b_, step, b_.CreateSub(rows, r)), smaller(b_, step, b_.CreateSub(lanes, l))};
      if (target_.compact) return buffered(s);
      auto* whole = llvm::BasicBlock::Create(b_.getContext(), "square.whole", function_);
      auto* part = llvm::BasicBlock::Create(b_.getContext(), "square.part", function_);
      auto* next = llvm::BasicBlock::Create(b_.getContext(), "square.next", function_);
      b_.CreateCondBr(b_.CreateICmpEQ(b_.CreateAnd(s.rows, s.lanes), step), whole, part);
      b_.SetInsertPoint(whole);
      plan_.rows_written_out ? written_out({r, l, step, step, true}) : buffered({r, l, step, step, true});
      b_.CreateBr(next);
      b_.SetInsertPoint(part);
      buffered(s);
      b_.CreateBr(next);
      b_.SetInsertPoint(next);
    });
  });
}

Value* NestEmitter::square_buffer(ir::DType type) {
  return stack_slot(b_, llvm::ArrayType::get(memory_element(b_, type), uint64_t{plan_.lanes} * plan_.lanes));
}

void NestEmitter::written_out(const Square& s) {
  const unsigned lanes = plan_.lanes;
  for_each_across(false, [&](size_t a) {
    const unsigned n = block_size(a);
    std::vector<llvm::SmallVector<Value*, 4>> pieces(lanes);
    for (unsigned l = 0; l < lanes; l += n)
      for (unsigned r = 0; r < lanes; r += n) {
        const auto block = load_block(a, s, b_.getInt64(l), b_.getInt64(r));
        for (unsigned k = 0; k < n; ++k) pieces[r + k].push_back(block[k]);
      }
    turned_[a].rows.clear();
    for (const auto& row : pieces) turned_[a].rows.push_back(joined(b_, row));
  });
  for_each_across(true, [&](size_t a) { turned_[a].rows.assign(lanes, nullptr); });
  const std::vector<Value*> outside = address_;
  for (unsigned r = 0; r < lanes; ++r) {
    row_ = b_.getInt64(r);
    start_row(s, r == 0 ? outside : address_, r == 0);
    all_stages({1});
  }
  address_ = outside;
  for_each_across(true, [&](size_t a) {
    const unsigned n = block_size(a);
    for (unsigned l = 0; l < lanes; l += n)
      for (unsigned r = 0; r < lanes; r += n) {
        llvm::SmallVector<Value*, 16> block;
        for (unsigned k = 0; k < n; ++k)
          block.push_back(n == lanes ? turned_[a].rows[k] : piece(b_, turned_[a].rows[r + k], l, n));
        store_block(a, s, b_.getInt64(l), b_.getInt64(r), block);
      }
  });
  for (Turned& t : turned_) t.rows.clear();
}

void NestEmitter::buffered(const Square& s) {
  auto each_block = [&](size_t a, const std::function<void(Value*, Value*)>& body) {
    Value* step = b_.getInt64(block_size(a));
    emit_loop(b_, "block.lanes", b_.getInt64(0), s.lanes, step, {}, [&](Value* l) {
      emit_loop(b_, "block.rows", b_.getInt64(0), s.rows, step, {}, [&](Value* r) { body(l, r); });
    });
  };
  auto place = [&](size_t a, Value* l, Value* r, unsigned k) {
    llvm::Type* element = memory_element(b_, nest_.accesses[a].dtype);
    return Place{b_.CreateGEP(element, buffered_row(a, b_.CreateAdd(r, b_.getInt64(k))), l)};
  };
  for_each_across(false, [&](size_t a) {
    if (target_.compact) return copy_elements(a, s);
    VectorIR ir(b_, block_size(a));
    each_block(a, [&](Value* l, Value* r) {
      const auto block = load_block(a, s, l, r);
      for (unsigned k = 0; k < ir.lanes; ++k)
        store_elements(ir, target_, nest_.accesses[a].dtype, place(a, l, r, k), block[k]);
    });
  });
  const Pass pass = s.whole ? Pass{1, {}} : partial_pass(s.lanes);
  const std::vector<Value*> outside = address_;
  llvm::SmallVector<Value**, 8> carried;
  start_row(s, outside, true);
  for (size_t a = 0; a < address_.size(); ++a)
    if (!nest_.accesses[a].across) carried.push_back(&address_[a]);
  emit_loop(b_, "row", b_.getInt64(0), s.rows, b_.getInt64(1), carried, [&](Value* r) {
    const std::vector<Value*> here = address_;
    row_ = r;
    index_[nest_.tile] = b_.CreateAdd(s.row, r);
    all_stages(pass);
    start_row(s, here, false);
  });
  address_ = outside;
  for_each_across(true, [&](size_t a) {
    if (target_.compact) return copy_elements(a, s);
    VectorIR ir(b_, block_size(a));
    each_block(a, [&](Value* l, Value* r) {
      llvm::SmallVector<Value*, 16> block;
      for (unsigned k = 0; k < ir.lanes; ++k)
        block.push_back(load_elements(ir, target_, nest_.accesses[a].dtype, place(a, l, r, k)));
      store_block(a, s, l, r, block);
    });
  });
}

// Between memory and the square's buffer, one by one.
void NestEmitter::copy_elements(size_t a, const Square& s) {
  llvm::Type* element = memory_element(b_, nest_.accesses[a].dtype);
  Value* first = b_.CreatePtrAdd(address_[a], b_.CreateMul(s.lane, stride_[a][nest_.vector_dim()]));
  emit_loop(b_, "copy.lanes", b_.getInt64(0), s.lanes, b_.getInt64(1), {&first}, [&](Value* l) {
    emit_loop(b_, "copy.rows", b_.getInt64(0), s.rows, b_.getInt64(1), {}, [&](Value* r) {
      Value* memory = b_.CreateGEP(element, first, b_.CreateAdd(s.row, r));
      Value* buffer = b_.CreateGEP(element, buffered_row(a, r), l);
      const bool stores = nest_.accesses[a].store;
      b_.CreateStore(b_.CreateLoad(element, stores ? buffer : memory), stores ? memory : buffer);
    });
    first = b_.CreatePtrAdd(first, stride_[a][nest_.vector_dim()]);
  });
}

// Addresses and indices of the square's first row, or of the row after `before`.
void NestEmitter::start_row(const Square& s, const std::vector<Value*>& before, bool first) {
  index_[nest_.tile] = first ? s.row : b_.CreateAdd(index_[nest_.tile], b_.getInt64(1));
  index_[nest_.vector_dim()] = s.lane;
  for (size_t a = 0; a < address_.size(); ++a) {
    if (nest_.accesses[a].across) continue;
    Value* stride = stride_[a][nest_.tile];
    address_[a] = b_.CreatePtrAdd(before[a], first ? b_.CreateMul(s.row, stride) : stride);
  }
}

void NestEmitter::for_each_across(bool stores, const std::function<void(size_t)>& body) {
  for (size_t a = 0; a < nest_.accesses.size(); ++a)
    if (nest_.accesses[a].across && nest_.accesses[a].store == stores) body(a);
}

// Elements that are turned round at once, each way.
unsigned NestEmitter::block_size(size_t access) const {
  const auto fit = static_cast<unsigned>(target_.vector_bits / (8 * ir::item_size(nest_.accesses[access].dtype)));
  return std::min({plan_.lanes, fit, 16u});
}

Value* NestEmitter::buffered_row(size_t access, Value* row) {
  llvm::Type* element = memory_element(b_, nest_.accesses[access].dtype);
  return b_.CreateGEP(element, turned_[access].buffer, b_.CreateMul(row, b_.getInt64(plan_.lanes)));
}

// The current row of an access across, where rows are written out.
Value** NestEmitter::written_row(size_t access) {
  if (!nest_.accesses[access].across || turned_[access].rows.empty()) return nullptr;
  return &turned_[access].rows[llvm::cast<llvm::ConstantInt>(row_)->getZExtValue()];
}

// Where the block at lane l and row r of the square lies in memory: lane k of it. Behind the square's last lane there
// is nothing to load or store, nor behind its last row.
llvm::SmallVector<Place, 16> NestEmitter::block_places(VectorIR& ir, size_t a, const Square& s, Value* l, Value* r) {
  llvm::Type* element = memory_element(b_, nest_.accesses[a].dtype);
  Value* stride = stride_[a][nest_.vector_dim()];
  Value* address = b_.CreateGEP(element, address_[a], b_.CreateAdd(s.row, r));
  address = b_.CreatePtrAdd(address, b_.CreateMul(b_.CreateAdd(s.lane, l), stride));
  llvm::SmallVector<Place, 16> places;
  Value* count = s.whole ? nullptr : smaller(b_, b_.getInt64(ir.lanes), b_.CreateSub(s.rows, r));
  for (unsigned k = 0; k < ir.lanes; ++k) {
    Value* there = s.whole ? b_.getTrue() : b_.CreateICmpSLT(b_.CreateAdd(l, b_.getInt64(k)), s.lanes);
    if (k) address = b_.CreatePtrAdd(address, b_.CreateSelect(there, stride, b_.getInt64(0)));
    Place p{address};
    if (!s.whole) {
      p.count = nest_.accesses[a].store ? b_.CreateSelect(there, count, b_.getInt64(0)) : count;
      p.mask = lane_mask(ir, p.count);
    }
    places.push_back(p);
  }
  return places;
}

// What the next row of squares wants of this one's lane: too many streams for the processor to follow by itself.
void NestEmitter::prefetch_next(size_t access, const Place& place) {
  const int64_t ahead = plan_.lanes * ir::item_size(nest_.accesses[access].dtype);
  Value* address = b_.CreatePtrAdd(place.address, b_.getInt64(static_cast<uint64_t>(ahead)));
  constexpr unsigned kRead = 0, kKeep = 3, kData = 1;
  b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()},
                     {address, b_.getInt32(kRead), b_.getInt32(kKeep), b_.getInt32(kData)});
}

llvm::SmallVector<Value*, 16> NestEmitter::load_block(size_t a, const Square& s, Value* l, Value* r) {
  VectorIR ir(b_, block_size(a));
  llvm::SmallVector<Value*, 16> block;
  for (const Place& p : block_places(ir, a, s, l, r)) {
    block.push_back(load_elements(ir, target_, nest_.accesses[a].dtype, p));
    if (s.whole) prefetch_next(a, p);
  }
  return transpose(b_, block);
}

void NestEmitter::store_block(size_t a, const Square& s, Value* l, Value* r, llvm::ArrayRef<Value*> block) {
  VectorIR ir(b_, block_size(a));
  const auto turned = transpose(b_, block);
  const auto places = block_places(ir, a, s, l, r);
  for (unsigned k = 0; k < ir.lanes; ++k) store_elements(ir, target_, nest_.accesses[a].dtype, places[k], turned[k]);
}

}  // namespace lazuli::lowering::cpu
