// Emits one nest for a CPU: the loop over units, the passes over vectors, and the instructions in them.
#pragma once
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

  // One execution of instructions: `copies` vectors side by side, or one of which only the first `count` lanes exist.
  struct Pass {
    unsigned copies;
    Value* count = nullptr;
    Value* mask = nullptr;
  };
  struct Result {
    Value* uniform = nullptr;
    Value* splat = nullptr;
    llvm::SmallVector<Value*, 4> copies;
  };

  static constexpr unsigned kNoStage = ~0u;

  // Units (nest_emitter.cpp).
  void read_arguments();
  void unit_loop(Value* begin, Value* end);
  llvm::SmallVector<Value*, 6> first_unit(Value* begin);
  void next_unit(llvm::SmallVector<Value*, 6>& indices);

  // Stages (nest_stages.cpp).
  void all_stages(const Pass& pass);
  void stage_loop(unsigned stage, const Pass& pass);
  void reduced_loops(unsigned stage, uint32_t dim, const Pass& pass);
  void lane_loops(unsigned stage);
  void vector_loops(Value* first, Value* last, unsigned unroll, unsigned stage, llvm::ArrayRef<Value**> carried,
                    const std::function<void(const Pass&)>& body);
  void summing_loop(const char* name, unsigned stage, Value* first, Value* last, int64_t step,
                    llvm::ArrayRef<Value**> carried, const std::function<void(Value*)>& body);
  void elements(unsigned stage, const Pass& pass);
  void start_accumulators(unsigned stage, unsigned copies);
  void finish_accumulators(unsigned stage, unsigned copies);
  llvm::SmallVector<Value**, 8> accumulator_slots(unsigned stage);
  Pass partial_pass(Value* remaining);

  // Instructions (nest_insts.cpp).
  void run(size_t inst, const Pass& pass);
  void run_level(Level level);
  void define(size_t inst, Value* uniform);
  void primitive(size_t inst, const Pass& pass);
  void load(size_t inst, const Pass& pass);
  void store(size_t inst, const Pass& pass);
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
  llvm::SmallVector<Value*, 6> radix_;       // of the unit counter, outermost first
  std::vector<Value*> size_;                 // per dimension
  std::vector<std::vector<Value*>> stride_;  // bytes, per access and dimension; null where it never moves
  std::vector<Value*> index_stride_;         // bytes, per access
  std::vector<Value*> param_;
  Value* status_ = nullptr;
  std::vector<Value*> address_;  // per access, at the current loop depth, without the vector dimension
  std::vector<Value*> index_;    // per dimension; of the vector dimension, the first lane's
  std::vector<Result> results_;  // per instruction
  std::vector<llvm::SmallVector<Accumulator, 4>> accumulators_;
};

}  // namespace lazuli::lowering::cpu
