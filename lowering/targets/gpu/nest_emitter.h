// Emits one nest for a GPU: which points a thread takes (the mapping), and the instructions for them, one scalar value
// per element that the thread holds.
#pragma once
#include "lowering/nest/codegen.h"
#include "lowering/targets/gpu/memory.h"
#include "lowering/targets/gpu/nest_plan.h"
#include "lowering/targets/gpu/precision.h"
#include "lowering/targets/reduction.h"

namespace lazuli::lowering::gpu {

class NestEmitter {
 public:
  NestEmitter(llvm::Module& module, const LoopNest& nest, const std::string& symbol, const GpuVariant& variant);
  void emit();

 private:
  using Value = llvm::Value;

  // The kernel's frame (nest_emitter.cpp).
  void find_member();
  void read_arguments();
  Value* argument(size_t i, llvm::Type* type = nullptr);
  Value* natural(Value* x);  // to the type of indices
  Value* natural(int64_t x) { return llvm::ConstantInt::get(int_, static_cast<uint64_t>(x), true); }
  Value* natural(int x) { return natural(int64_t{x}); }
  Value* natural(unsigned x) { return natural(int64_t{x}); }
  Value* ceil_divided(Value* x, int64_t by);
  void when(Value* condition, const std::function<void()>& body);  // null: always
  Values unravel(Value* flat, llvm::ArrayRef<Value*> radix);

  // Mappings (mappings.cpp, tiles.cpp).
  void flat();
  void rows();
  void set_row(Value* number);
  Value* kept_points();
  void all_rows();
  // Of a nest that accumulates: what is there when a row begins.
  bool is_ahead(size_t inst) const {
    const Inst& x = nest_.insts[inst];
    return x.code == Code::Param || (x.code == Code::Load && first_[inst] == inst && !nest_.accesses[x.slot].indexed);
  }
  void columns();
  void tiles();
  void set_flat_point(unsigned pass, Value* vector, llvm::ArrayRef<Value*> radix);
  void set_tile_point(unsigned pass, bool turned);
  void load_tiles();
  void store_tiles();
  Values load_tiled(const Inst& x);
  void store_tiled(const Inst& x);
  Value* tile_slot(size_t access, unsigned pass, unsigned lane);
  void fix_addresses();

  // Stages (nest_stages.cpp).
  void all_stages();
  void stage_loop(unsigned stage);
  void elements(unsigned stage);
  void set_reduced_points(Value* first);
  void start_accumulators(unsigned stage);
  void accumulate(size_t inst);
  void finish_accumulators(unsigned stage);
  llvm::SmallVector<Value**, 8> accumulator_slots(unsigned stage);
  void team_barrier();

  // Joining the accumulators of a team (joins.cpp).
  Accumulator join_warp(const Inst& x, Accumulator a, unsigned from, unsigned to);
  void join_rows(llvm::ArrayRef<size_t> reduces);
  void join_columns(size_t reduce);
  uint64_t reduction_slots() const;  // bytes of shared memory for a row's
  void put(Value* base, Value* slot, const Accumulator& a);
  Accumulator get(Value* base, Value* slot, const Accumulator& like);

  // Instructions (nest_insts.cpp).
  void run(size_t inst);
  void primitive(size_t inst);
  Vec short_form(size_t inst, std::span<const Vec> args, unsigned pass, unsigned lane);
  void load(size_t inst);
  void store(const Inst& x, uint16_t value);
  void add_to_sum(size_t inst);
  void check(size_t inst);
  void for_copies(Varies varies, const std::function<Value*(unsigned pass, unsigned lane)>& make, size_t inst);
  Value* operand(uint16_t inst, unsigned pass, unsigned lane) const;
  Value* address(const Inst& x, uint16_t index_inst, unsigned pass, unsigned lane);
  Value* lane_exists(unsigned pass, unsigned lane);  // null: surely
  Value* both(Value* a, Value* b);                   // of conditions that may be null

  bool moves_along(size_t access, uint32_t dim) const;
  bool is_tiled(size_t access) const {
    return variant_.mapping == GpuMapping::Tile && access < 64 && variant_.tiled >> access & 1;
  }
  unsigned lanes() const { return variant_.lanes; }
  unsigned passes() const { return variant_.passes; }
  uint32_t kept() const { return nest_.rank - nest_.reduced; }
  uint32_t vector_dim() const { return nest_.vector_dim(); }
  ir::DType accumulated_type(const Inst& x) const { return is_arg(x.reduce) ? nest_.insts[x.args[0]].dtype : x.dtype; }

  const LoopNest& nest_;
  const GpuVariant& variant_;
  const bool accumulates_;
  const GpuArgsLayout layout_;
  const std::vector<Varies> varies_;
  const std::vector<uint16_t> first_;  // of equal instructions; empty unless values stay in registers
  const std::vector<Precision> precision_;
  llvm::IRBuilder<> b_;
  VectorIR ir_;
  llvm::Function* function_;
  llvm::Type* int_;  // of indices and offsets in elements

  std::vector<Value*> size_;                 // per dimension
  std::vector<std::vector<Value*>> stride_;  // elements, per access and dimension; null where it never moves
  std::vector<Value*> index_stride_;         // i64, elements
  std::vector<Value*> param_;
  std::vector<Value*> address_;    // per access: as far as the dimensions of `fixed_` move it
  std::vector<bool> fixed_;        // per dimension: its index is the same in all passes, and in address_
  std::vector<Values> index_;      // per dimension and pass; of the vector dimension, lane 0's
  Values active_;                  // per pass: whether its point exists; null: surely
  Value* point_active_ = nullptr;  // whether the thread's row or column exists; null: surely
  Value* leader_ = nullptr;        // whether the thread stores what its whole team knows
  Value *arguments_ = nullptr, *block_ = nullptr;  // the member's: its arguments, and the block's number in its grid
  Value *thread_ = nullptr, *team_lane_ = nullptr, *team_row_ = nullptr;
  Value *vectors_ = nullptr, *reduced_vectors_ = nullptr;  // along the vector dimension; Rows: in a whole row
  Values corner_;  // Tile: of the vector dimension and of the other, the first index
  std::vector<std::pair<Value*, Value*>> tile_index_;  // per pass: within the tile, along and across; lane 0's
  bool unsynced_loads_ = false;                        // since the team's last barrier
  Value* shared_ = nullptr;
  Value* odd_row_ = nullptr;                                     // 0 or 1, of a nest that accumulates
  std::vector<Values> results_;                                  // per instruction, passes x lanes
  std::vector<llvm::SmallVector<Accumulator, 8>> accumulators_;  // per instruction and lane
};

}  // namespace lazuli::lowering::gpu
