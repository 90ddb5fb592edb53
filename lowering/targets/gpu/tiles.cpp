// Square tiles of two dimensions, for nests of which some accesses walk memory along one and the others along the
// other. Each access moves with neighbouring threads on neighbouring elements: what walks along the tile's second
// dimension goes through shared memory, where the tile is turned. Rows there are padded, so that neither way of
// walking meets in few banks.
//
// A thread takes `lanes` neighbours along the vector dimension or, turned, along the other one: one access of global
// memory. Its passes lie side by side across them in groups as large as a word of shared memory holds elements, and
// everything goes through shared memory in words.
#include "lowering/targets/gpu/nest_emitter.h"
#include "lowering/targets/gpu/threads.h"

namespace lazuli::lowering::gpu {
namespace {

constexpr unsigned kWordBytes = 4;  // as wide as a bank

unsigned pitch(unsigned tile, ir::DType memory) { return tile + per_word(memory); }

uint64_t tile_bytes(unsigned tile, ir::DType memory) {
  return (uint64_t{tile} * pitch(tile, memory) * static_cast<uint64_t>(ir::item_size(memory)) + 15) / 16 * 16;
}

}  // namespace

void NestEmitter::tiles() {
  const unsigned tile = variant_.tile;
  uint64_t bytes = 0;
  for (size_t a = 0; a < nest_.accesses.size(); ++a)
    if (is_tiled(a)) bytes += tile_bytes(tile, nest_.accesses[a].dtype);
  shared_ = shared_memory(b_, bytes);
  // Blocks count tiles, and single elements along the other dimensions.
  llvm::SmallVector<Value*, 6> radix(size_.begin(), size_.end());
  radix[vector_dim()] = ceil_divided(radix[vector_dim()], tile);
  radix[variant_.tile_dim] = ceil_divided(radix[variant_.tile_dim], tile);
  const Values at = unravel(natural(block_), radix);
  for (uint32_t d = 0; d < nest_.rank; ++d)
    if (d != vector_dim() && d != variant_.tile_dim) index_[d].push_back(at[d]);
  fix_addresses();
  for (uint32_t d : {vector_dim(), uint32_t{variant_.tile_dim}}) {
    corner_.push_back(b_.CreateMul(at[d], natural(tile)));
    index_[d].assign(passes(), nullptr);
  }
  load_tiles();
  for (unsigned u = 0; u < passes(); ++u) set_tile_point(u, false);
  all_stages();
  store_tiles();
}

// The first of the thread's points in a pass.
void NestEmitter::set_tile_point(unsigned pass, bool turned) {
  const unsigned tile = variant_.tile, side = tile / lanes(), rows = variant_.threads / side;
  unsigned group = 1;
  for (size_t a = 0; a < nest_.accesses.size(); ++a)
    if (is_tiled(a)) group = std::max(group, per_word(nest_.accesses[a].dtype));
  if (turned) group = 1;
  Value* fast = b_.CreateMul(natural(b_.CreateAnd(thread_, b_.getInt32(side - 1))), natural(lanes()));
  Value* slow = b_.CreateMul(natural(b_.CreateUDiv(thread_, b_.getInt32(side))), natural(group));
  slow = b_.CreateAdd(slow, natural(pass / group * rows * group + pass % group));
  Value *along = turned ? slow : fast, *across = turned ? fast : slow;
  Value* vector = b_.CreateAdd(corner_[0], along);
  Value* other = b_.CreateAdd(corner_[1], across);
  active_[pass] =
      b_.CreateAnd(b_.CreateICmpULT(vector, size_[vector_dim()]), b_.CreateICmpULT(other, size_[variant_.tile_dim]));
  tile_index_[pass] = {along, across};
  // The corner, which always exists, stands in for points that do not.
  index_[vector_dim()][pass] = b_.CreateSelect(active_[pass], vector, corner_[0]);
  index_[variant_.tile_dim][pass] = b_.CreateSelect(active_[pass], other, corner_[1]);
}

llvm::Value* NestEmitter::tile_slot(size_t access, unsigned pass, unsigned lane) {
  uint64_t base = 0;
  for (size_t a = 0; a < access; ++a)
    if (is_tiled(a)) base += tile_bytes(variant_.tile, nest_.accesses[a].dtype);
  const ir::DType memory = nest_.accesses[access].dtype;
  const int64_t row = pitch(variant_.tile, memory);
  auto [along, across] = tile_index_[pass];
  Value* slot = b_.CreateAdd(b_.CreateMul(along, natural(row)), across);
  Value* first = b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), shared_, base);
  llvm::Type* element = b_.getIntNTy(static_cast<unsigned>(ir::item_size(memory)) * 8);
  return b_.CreateConstInBoundsGEP1_64(element, b_.CreateGEP(element, first, slot), static_cast<uint64_t>(lane * row));
}

// The passes of a word at once.
Values NestEmitter::load_tiled(const Inst& x) {
  const ir::DType memory = nest_.accesses[x.slot].dtype;
  Values values(size_t{passes()} * lanes());
  for (unsigned u = 0; u < passes(); u += per_word(memory))
    for (unsigned c = 0; c < lanes(); ++c) {
      const Values word = load_neighbours(ir_, memory, tile_slot(x.slot, u, c), per_word(memory));
      for (unsigned k = 0; k < word.size(); ++k) values[size_t{u + k} * lanes() + c] = word[k];
    }
  return values;
}

void NestEmitter::store_tiled(const Inst& x) {
  const ir::DType memory = nest_.accesses[x.slot].dtype;
  for (unsigned u = 0; u < passes(); u += per_word(memory))
    for (unsigned c = 0; c < lanes(); ++c) {
      Values word;
      for (unsigned k = 0; k < per_word(memory); ++k) word.push_back(operand(x.args[0], u + k, c));
      store_neighbours(ir_, memory, tile_slot(x.slot, u, c), word);
    }
}

void NestEmitter::load_tiles() {
  for (unsigned u = 0; u < passes(); ++u) set_tile_point(u, true);
  llvm::SmallVector<std::pair<const Inst*, Values>, 16> loaded;
  std::vector<bool> seen(nest_.accesses.size());
  for (const Inst& x : nest_.insts) {
    if (x.code != Code::Load || !is_tiled(x.slot) || seen[x.slot]) continue;
    seen[x.slot] = true;
    for (unsigned u = 0; u < passes(); ++u)
      loaded.push_back({&x, load_words(ir_, nest_.accesses[x.slot].dtype, address(x, 0, u, 0), lanes())});
  }
  if (loaded.empty()) return;
  for (size_t k = 0; k < loaded.size(); ++k) {
    const auto& [x, words] = loaded[k];
    store_words(ir_, nest_.accesses[x->slot].dtype, tile_slot(x->slot, static_cast<unsigned>(k % passes()), 0), words,
                lanes(), kWordBytes);
  }
  block_barrier(b_);
}

void NestEmitter::store_tiles() {
  std::vector<const Inst*> stores;
  for (const Inst& x : nest_.insts)
    if (x.code == Code::Store && is_tiled(x.slot)) stores.push_back(&x);
  if (stores.empty()) return;
  block_barrier(b_);
  for (unsigned u = 0; u < passes(); ++u) set_tile_point(u, true);
  for (const Inst* x : stores) {
    const ir::DType memory = nest_.accesses[x->slot].dtype;
    for (unsigned u = 0; u < passes(); ++u)
      when(active_[u], [&] {
        const Values words = load_words(ir_, memory, tile_slot(x->slot, u, 0), lanes(), kWordBytes);
        store_words(ir_, memory, address(*x, 0, u, 0), words, lanes());
      });
  }
}

}  // namespace lazuli::lowering::gpu
