// Square tiles of two dimensions, for nests of which some accesses walk memory along one and the others along the
// other. Each access moves with neighbouring threads on neighbouring elements: what walks along the tile's second
// dimension goes through shared memory, where the tile is turned. Rows there are padded, so that neither way of
// walking meets in one bank.
#include "lowering/targets/gpu/nest_emitter.h"
#include "lowering/targets/gpu/threads.h"

namespace lazuli::lowering::gpu {
namespace {

// Four bytes, as one bank is wide.
unsigned pitch(unsigned tile, unsigned item) { return tile + std::max(1u, 4 / item); }

}  // namespace

void NestEmitter::tiles() {
  const unsigned tile = variant_.tile;
  uint64_t bytes = 0;
  for (size_t a = 0; a < nest_.accesses.size(); ++a)
    if (is_tiled(a)) {
      const auto item = static_cast<unsigned>(ir::item_size(nest_.accesses[a].dtype));
      bytes += (uint64_t{tile} * pitch(tile, item) * item + 15) / 16 * 16;
    }
  shared_ = shared_memory(b_, bytes);
  // Blocks count tiles, and single elements along the other dimensions.
  llvm::SmallVector<Value*, 6> radix(size_.begin(), size_.end());
  radix[vector_dim()] = ceil_divided(radix[vector_dim()], tile);
  radix[variant_.tile_dim] = ceil_divided(radix[variant_.tile_dim], tile);
  const Values at = unravel(natural(block_index(b_, 0)), radix);
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

// The thread's point in a pass: neighbouring threads go along the vector dimension or, turned, along the other one.
void NestEmitter::set_tile_point(unsigned pass, bool turned) {
  const unsigned tile = variant_.tile, rows = variant_.threads / tile;
  Value* fast = natural(b_.CreateAnd(thread_, b_.getInt32(tile - 1)));
  Value* slow = natural(b_.CreateAdd(b_.CreateUDiv(thread_, b_.getInt32(tile)), b_.getInt32(rows * pass)));
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

llvm::Value* NestEmitter::tile_slot(size_t access, unsigned pass) {
  uint64_t base = 0;
  unsigned item = 0;
  for (size_t a = 0; a <= access; ++a) {
    if (!is_tiled(a)) continue;
    item = static_cast<unsigned>(ir::item_size(nest_.accesses[a].dtype));
    if (a < access) base += (uint64_t{variant_.tile} * pitch(variant_.tile, item) * item + 15) / 16 * 16;
  }
  auto [along, across] = tile_index_[pass];
  Value* slot = b_.CreateAdd(b_.CreateMul(along, natural(pitch(variant_.tile, item))), across);
  Value* first = b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), shared_, base);
  return b_.CreateGEP(b_.getIntNTy(item * 8), first, slot);
}

void NestEmitter::load_tiles() {
  for (unsigned u = 0; u < passes(); ++u) set_tile_point(u, true);
  llvm::SmallVector<std::pair<size_t, Values>, 4> loaded;
  std::vector<bool> seen(nest_.accesses.size());
  for (const Inst& x : nest_.insts) {
    if (x.code != Code::Load || !is_tiled(x.slot) || seen[x.slot]) continue;
    seen[x.slot] = true;
    Values raw;
    for (unsigned u = 0; u < passes(); ++u)
      raw.push_back(load_raw(ir_, nest_.accesses[x.slot].dtype, address(x, 0, u, 0), is_constant(x.slot)));
    loaded.push_back({x.slot, raw});
  }
  if (loaded.empty()) return;
  for (auto& [a, raw] : loaded)
    for (unsigned u = 0; u < passes(); ++u) store_raw(ir_, nest_.accesses[a].dtype, tile_slot(a, u), raw[u]);
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
      when(active_[u],
           [&] { store_raw(ir_, memory, address(*x, 0, u, 0), load_raw(ir_, memory, tile_slot(x->slot, u), false)); });
  }
}

}  // namespace lazuli::lowering::gpu
