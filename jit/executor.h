// Runs a plan: a flat list of prepared steps whose argument arrays only lack addresses and run-time numbers.
#pragma once
#include <mutex>
#include <string>
#include <vector>
#include "jit/executable.h"
#include "lowering/plan.h"

namespace lazuli::jit {

class Executor {
 public:
  // `functions`: one per step, null for steps that are not kernels; null for all kernels means to interpret them.
  Executor(const ir::Graph& graph, lowering::Plan plan, std::vector<lowering::KernelFn> functions);
  void run(Host& host, std::span<Buffer> inputs, std::span<const bool> donate, std::span<const int64_t> scalars,
           std::span<Buffer> outputs);
  const lowering::Plan& plan() const { return plan_; }

 private:
  // Argument `arg` of a step is the address of a block plus an offset, or a scalar of the graph.
  struct Address {
    uint32_t arg, block;
    int64_t offset;
  };
  struct Number {
    uint32_t arg, scalar;
  };
  struct Launch {
    lowering::KernelFn function = nullptr;
    std::vector<int64_t> args;
    std::vector<Address> addresses;
    std::vector<Number> numbers;
    std::vector<int64_t> first_units;   // of each chunk, then their total
    int64_t status = 0;                 // the kernel's status word
    std::vector<std::string> failures;  // what each of its checks says
    size_t stride = 0;                  // of a chunk's arguments
    double work = 0;                    // in element instructions
    std::vector<const void*> operands;  // library calls
    std::vector<void*> results;
    std::vector<uint32_t> born, dead;  // output blocks to allocate before, external ones to let go after
    std::string where;                 // op and Python line
  };

  void prepare(const ir::Graph& graph, uint32_t step, lowering::KernelFn function);
  void prepare_kernel(const ir::Graph& graph, uint32_t step, lowering::KernelFn function);
  void place_inputs(Host& host, std::span<Buffer> inputs, std::span<const bool> donate);
  void run_step(Host& host, uint32_t step, std::span<const int64_t> scalars);
  void run_kernel(uint32_t step, std::span<const int64_t> scalars);
  void run_library(uint32_t step);
  void run_external(Host& host, uint32_t step);
  char* address(uint32_t block) const { return static_cast<char*>(memory_[block].data); }
  void release();

  lowering::Plan plan_;
  std::vector<Launch> launches_;  // one per step; kernels know the addresses of their status words
  std::vector<Buffer> memory_;    // of a run, by block
  std::mutex mutex_;
};

// The op and the Python line that recorded it, for messages: "add (model.py:12)".
std::string where(const ir::Graph& graph, uint32_t node);

}  // namespace lazuli::jit
