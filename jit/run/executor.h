// Runs a plan's steps in order over a device, and gives every block its memory.
#pragma once
#include <mutex>
#include <optional>
#include <string>
#include <vector>
#include "jit/device.h"
#include "jit/run/captured_runs.h"

namespace lazuli::jit {

class Executor {
 public:
  // Graph and plan outlive it.
  Executor(const ir::Graph& graph, const lowering::Plan& plan, Device& device);
  // Loads the kernels. Once, before the first run.
  void load(const CompileOptions& options, Dump& dump);
  // Graph and plan have other numbers now, and the plan other places, but are otherwise as they were.
  void resize();
  void run(Host& host, std::span<Buffer> inputs, std::span<const bool> donate, std::span<const int64_t> scalars,
           std::span<Buffer> outputs);
  // Which outputs depend on inputs that could not be computed.
  Failures failures_of(const Failures& inputs) const;

 private:
  struct Step {
    std::unique_ptr<KernelStep> kernel;
    uint32_t next = 0;                  // the first step that is not of this one's launch
    std::vector<const void*> operands;  // library calls
    std::vector<void*> results;
    std::vector<uint32_t> born, dead;  // output blocks to allocate before, host's ones to let go after
  };

  void look_at_blocks();
  void look_at_packed_blocks();
  // Calls `take`, once more after freeing memory if there is none.
  template <class F>
  Buffer with_memory(Host& host, F take) {
    try {
      return take();
    } catch (const OutOfMemory&) {
      host.free_memory();
      device_.free_memory();
    }
    return take();
  }
  Buffer allocate(Host& host, uint32_t block);
  void place(Host& host, uint32_t block);  // with the blocks that lie in it
  Buffer make_arena(Host& host);
  void place_arena(const Buffer& arena);
  void place_inputs(Host& host, std::span<Buffer> inputs, std::span<const bool> donate);
  // What a run gets besides its memory, and what became of it.
  struct Run {
    Host& host;
    std::span<const int64_t> scalars;
    RunObserver* observer;
    Failures failed;  // by node
  };
  // Does the work of a step, and notes its failure.
  template <class F>
  void attempt(Run& run, uint32_t step, F work) {
    try {
      work();
    } catch (const std::exception&) {
      take_failure(run, step);
    }
  }
  void take_failure(Run& run, uint32_t step);  // of the exception that is being handled; throws OutOfMemory
  void run_steps(Run& run, lowering::StepRange steps);
  void run_step(Host& host, uint32_t step, std::span<const int64_t> scalars);
  void run_step(Host& host, uint32_t step, std::span<const int64_t> scalars, RunObserver* observer);
  // The same without giving back what nobody needs any more.
  void do_step(Host& host, uint32_t step, std::span<const int64_t> scalars);

  // The pool in which this run may be captured; null: it may not be. This and the next: executor_captures.cpp.
  CapturePool* pool_for(const Run& run);
  // Asks whether the device waits for what is enqueued.
  void run_paced(Run& run);
  // False: nothing was done, as the run is none of those that are captured.
  bool run_captured(Run& run, CapturePool& pool);
  void place_outputs(Host& host);
  // Memory in the pool for all that gets a fixed place before the first step.
  std::vector<Buffer> fix_places(Host& host, CapturePool& pool, CapturedRun& captured);
  void launch_captured(Run& run, CapturePool& pool, CapturedRun& captured, bool is_first);
  std::unique_ptr<CapturedLaunches> capture(Run& run, CapturePool& pool, CapturedRun& captured,
                                            lowering::StepRange steps);
  void run_library(Host& host, uint32_t step);
  Buffer packed_operand(Host& host, uint32_t step);
  bool may_let_go(const lowering::PlanStep& step, const Buffer& whole) const;
  void run_on_host(Host& host, uint32_t step, std::span<const int64_t> scalars);
  char* address(uint32_t block) const { return static_cast<char*>(memory_[block].data); }
  void* scratch(const lowering::PlanStep& step) const {
    return step.scratch == lowering::kNoBlock ? nullptr : address(step.scratch);
  }
  std::string where_of(uint32_t step) const;  // op and Python line
  void release();
  // Notes what has just been thrown by a step, for its nodes or those that the error names.
  void note_failure(Failures& by_node, uint32_t step, const ExecutionError& error);
  // Memory for the results of a step that gave none, so that what is left can run.
  void stand_in(Host& host, uint32_t step);
  Failures spread(Failures by_node) const;

  const ir::Graph& graph_;
  const lowering::Plan& plan_;
  Device& device_;
  std::vector<Step> steps_;
  std::vector<std::vector<uint32_t>> guests_;  // by output or segment: what lies in it
  std::vector<bool> is_only_packed_;           // by block
  std::vector<Buffer> memory_;                 // of a run, by block
  void* stream_ = nullptr;                     // of a run
  std::optional<CapturedRuns> captured_runs_;  // goes before the kernels that they launch
  const uint64_t number_ = next_executable_number();
  std::mutex mutex_;
};

// The op and the Python line that recorded it, for messages: "add (model.py:12)".
std::string where(const ir::Graph& graph, uint32_t node);
// "model.py:12"; empty where it is not known.
std::string line_of(const ir::Graph& graph, uint32_t node);

}  // namespace lazuli::jit
