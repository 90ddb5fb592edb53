// Emits one nest for a CPU: the loop over units, the passes over vectors, and the instructions in them.
#pragma once
#include <array>
#include <optional>
#include "lowering/targets/cpu/memory.h"
#include "lowering/targets/cpu/nest_plan.h"
#include "lowering/targets/reduction.h"

namespace lazuli::lowering::cpu {

class NestEmitter {
 public:
  NestEmitter(llvm::Module& module, const LoopNest& nest, const std::string& symbol, const CpuTarget& target);
  void emit();

 private:
  using Value = llvm::Value;

  // One execution of instructions: `copies` vectors side by side, of which maybe only the first `count` lanes exist.
  struct Lanes {
    Value* count = nullptr;
    Value* mask = nullptr;
  };
  struct Pass {
    unsigned copies;
    llvm::SmallVector<Lanes, 4> partial;  // per copy; none: all lanes exist
    Lanes lanes(unsigned copy) const { return partial.empty() ? Lanes{} : partial[copy]; }
  };
  struct Result {
    Value* uniform = nullptr;
    Value* splat = nullptr;
    llvm::SmallVector<Value*, 4> copies;
  };

  static constexpr unsigned kNoStage = ~0u;
  // Sums of floating types are cut into so many terms each, and chunks of these, so that rounding errors grow with the
  // sum of the numbers, not with their product. The vectors of a row are many sums already.
  static constexpr std::array<int64_t, 3> kChunks = {32768, 1024, 32};
  static constexpr std::array<int64_t, 2> kVectorChunks = {1024, 32};

  // Units (nest_emitter.cpp).
  void read_arguments();
  class Units;
  void unit_loop(Value* begin, Value* end);

  // Stages (nest_stages.cpp).
  void all_stages(const Pass& pass);
  void row_insts(unsigned stage, const Pass& pass);
  bool loops(unsigned stage) const;
  void stage_loop(unsigned stage, const Pass& pass);
  void reduced_loops(unsigned stage, uint32_t dim, const Pass& pass);
  void lane_loops(unsigned stage);
  void vector_loops(Value* first, Value* last, unsigned unroll, unsigned stage, llvm::ArrayRef<Value**> carried,
                    const std::function<void(const Pass&)>& body);
  void summing_loop(const char* name, unsigned stage, Value* first, Value* last, int64_t step,
                    llvm::ArrayRef<int64_t> chunks, llvm::ArrayRef<Value**> carried,
                    const std::function<void(Value*)>& body);
  void elements(unsigned stage, const Pass& pass);
  void start_accumulators(unsigned stage, unsigned copies);
  void finish_accumulators(unsigned stage, unsigned copies);
  llvm::SmallVector<Value**, 8> accumulator_slots(unsigned stage);
  Lanes lanes_of(Value* remaining);
  Pass partial_pass(Value* remaining);
  Pass whole_row();

  // Column nests that are walked row by row (nest_rows.cpp).
  class ColumnSums;
  struct ColumnBlock;
  void row_by_row(Value* first, Value* last);
  void column_block(const ColumnBlock& block);
  void rows_in_chunks(const ColumnBlock& block, Value* row, Value* end, size_t level);
  void one_row(const ColumnBlock& block, Value* row);
  void columns_of(const ColumnBlock& block, const std::function<void(const Pass&, Value* column)>& body);
  bool moves_from_row_to_row(unsigned stage, size_t access) const;

  // Tiled nests (nest_tiles.cpp).
  struct Square {
    Value *row, *lane;    // the first of each
    Value *rows, *lanes;  // how many
    bool whole = false;   // as many as a vector has lanes
  };
  void squares(Value* row, Value* rows, Value* lane, Value* lanes);
  Value* square_buffer(ir::DType type);
  void written_out(const Square& s);
  void buffered(const Square& s);
  void copy_elements(size_t access, const Square& s);
  void start_row(const Square& s, const std::vector<Value*>& before, bool first);
  void for_each_across(bool stores, const std::function<void(size_t)>& body);
  unsigned block_size(size_t access) const;
  Value* buffered_row(size_t access, Value* row);
  Value** written_row(size_t access);
  llvm::SmallVector<Place, 16> block_places(VectorIR& ir, size_t access, const Square& s, Value* lane, Value* row);
  void prefetch_next(size_t access, const Place& place);
  llvm::SmallVector<Value*, 16> load_block(size_t access, const Square& s, Value* lane, Value* row);
  void store_block(size_t access, const Square& s, Value* lane, Value* row, llvm::ArrayRef<Value*> block);

  // Instructions (nest_insts.cpp).
  void run(size_t inst, const Pass& pass);
  void run_level(Level level);
  void define(size_t inst, Value* uniform);
  void primitive(size_t inst, const Pass& pass);
  Value* kept_vector(size_t inst, unsigned copy, llvm::Type* vector);
  void keep(size_t inst, const Pass& pass);
  void recall(size_t inst, const Pass& pass);
  void load(size_t inst, const Pass& pass);
  void store(size_t inst, const Pass& pass);
  std::optional<size_t> paired_store(size_t inst) const;
  void add_to_memory(size_t inst, const Pass& pass);
  void check(size_t inst, const Pass& pass);
  void accumulate(size_t inst, const Pass& pass);
  Place place(const Inst& x, uint16_t index_inst, unsigned copy, const Pass& pass);
  Value* uniform_address(const Inst& x, uint16_t index_inst);
  Value* lane_index(unsigned copy);
  Value* reduced_position(unsigned copy);
  Vec operand(uint16_t inst, unsigned copy);

  bool is_used(unsigned stage, size_t access) const;
  bool moves_along(size_t access, uint32_t dim) const;
  uint32_t kept() const { return nest_.rank - nest_.reduced; }
  bool column() const { return nest_.schedule == Schedule::Column; }

  const LoopNest& nest_;
  const CpuTarget& target_;
  const KernelArgsLayout layout_;
  const NestPlan plan_;
  llvm::IRBuilder<> b_;
  VectorIR scalar_, vector_;
  llvm::Function* function_;

  Value* block_ = nullptr;
  std::vector<Value*> size_;                 // per dimension
  std::vector<std::vector<Value*>> stride_;  // bytes, per access and dimension; null where it never moves
  std::vector<Value*> index_stride_;         // bytes, per access
  std::vector<Value*> param_;
  Value* status_ = nullptr;
  std::vector<Value*> address_;  // per access, at the current loop depth, without the vector dimension
  struct Turned {
    Value* buffer = nullptr;   // row by row
    std::vector<Value*> rows;  // where they are written out
  };
  std::vector<Turned> turned_;    // per access across: the current square, dense along the lanes
  Value* row_ = nullptr;          // of the square
  Pass held_row_{0};              // all vectors of a row that is held
  Value* first_point_ = nullptr;  // i1, of a nest that accumulates: whether this kept point is the first
  std::vector<Value*> index_;     // per dimension; of the vector dimension, the first lane's
  std::vector<Result> results_;   // per instruction
  std::vector<Value*> kept_;      // per instruction: the memory of a row of what it gives, if that is kept
  std::vector<llvm::SmallVector<Accumulator, 4>> accumulators_;
};

}  // namespace lazuli::lowering::cpu
