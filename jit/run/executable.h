// A graph made runnable: the plan with its loaded kernels and library primitives. The backing device's memory and its
// eager kernels come from whoever runs it, so that this level knows nothing of torch.
#pragma once
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>
#include "ir/graph.h"
#include "lowering/libraries/library.h"
#include "lowering/libraries/matmul_settings.h"

namespace lazuli::lowering {
struct Plan;
}

namespace lazuli::jit {

// Memory of the backing device, shared by reference count; freed through its owner's deleter.
struct Buffer {
  void* data = nullptr;
  size_t bytes = 0;
  std::shared_ptr<void> owner;  // keeps `data` alive; use_count() == 1 means that nobody else can see it
};

// A strided window on a buffer, for external calls; or one of a call's run-time numbers, which stand last.
struct BufferView {
  Buffer buffer = {};
  ir::Type type = {};
  ir::Dims strides = {};  // elements
  int64_t offset = 0;     // elements
  std::optional<int64_t> number = {};
};

class PackedOperands;

// Told of what a run does, step by step, for who draws it. What `executable` names is the same whenever the number is.
struct RunObserver {
  using Time = std::chrono::steady_clock::time_point;
  virtual ~RunObserver() = default;
  // A launch of a plan that begins at `step`. On a GPU it has only been enqueued at `end`.
  virtual void ran(uint64_t executable, const ir::Graph& graph, const lowering::Plan& plan, uint32_t step, Time begin,
                   Time end) = 0;
  // A node that runs without a plan.
  virtual void ran_alone(uint64_t executable, const ir::Graph& graph, uint32_t node, Time begin, Time end) = 0;
};
// A number for an executable that no other one of the process has.
uint64_t next_executable_number();

// Memory and a stream for captures: what an executable runs again as one launch finds its temporaries where they were.
// Who shares it runs one after the other. It lives as long as the process.
struct CapturePool {
  virtual ~CapturePool() = default;
  // A stream in which nothing else is.
  virtual void* stream() = 0;
  // While it lives, what this thread allocates comes from the pool, and torch's kernels go to that stream. Memory given
  // back may be given to the next capture: a captured run uses its own again all the same.
  virtual std::shared_ptr<void> enter() = 0;
  // Of the pool's memory and of all else that captures rely on. Where it is another one, what was captured before must
  // not run again. The memory stays while what hold() gave lives.
  virtual uint64_t number() = 0;
  virtual std::shared_ptr<void> hold() = 0;
  // Whether every plan that comes again is to be captured, not only where launching is what takes time.
  virtual bool always() = 0;
  // For who counts: a run was captured, and launched as such.
  virtual void captured() {}
  virtual void launched() {}
  // Runs of a plan whose last step is of `line` are not captured, and why.
  virtual void refused(const std::string& /*why*/, const std::string& /*line*/) {}
};

// What an executable needs from its host.
struct Host {
  virtual ~Host() = default;
  virtual Buffer allocate(size_t bytes) = 0;  // 64-byte aligned; throws OutOfMemory on exhaustion
  // Gives back what is kept for reuse: an allocation that failed is tried once more after it.
  virtual void free_memory() {}
  // Where operands of library calls stay packed from run to run; null: nowhere, and each run packs them anew.
  virtual PackedOperands* packed_operands() { return nullptr; }
  // Gives the system the memory of a buffer whose contents are somewhere else: its address stays. What is read there is
  // undefined until somebody has written all of it, and then let go of what this gives. Null: nothing was done, as the
  // memory is not the host's alone.
  virtual std::shared_ptr<void> let_go(const Buffer& /*buffer*/) { return nullptr; }
  // Runs recorded call `call`, which the user made at `line`; returns one dense row-major buffer per result.
  virtual std::vector<Buffer> external(int64_t call, const std::string& line, std::span<const BufferView> inputs,
                                       std::span<const ir::Type> results) = 0;
  // Whether any thread may run that call, with any number of threads, and gets the same bits.
  virtual bool runs_anywhere(int64_t /*call*/) const { return false; }
  // Runs the backing device's own kernel for a node that no library of ours serves there. Results are dense, with the
  // strides asked for.
  virtual std::vector<Buffer> eager(const ir::Node& node, std::span<const BufferView> inputs,
                                    std::span<const lowering::Layout> results) = 0;
  // For captures; null: this run's launches are to be made one by one.
  virtual CapturePool* capture_pool() { return nullptr; }
  // Whether that call, run while its launches are captured, does all that it does, and the same each time.
  virtual bool may_capture(int64_t /*call*/) const { return false; }
  // Around the work of a step, for who profiles: the step lasts as long as what this gives. Null: nobody does, or asks
  // for its name.
  virtual std::shared_ptr<void> profile(const std::function<std::string()>& /*step*/) { return nullptr; }
  // Told of each step; null: nobody wants to know.
  virtual RunObserver* observer() { return nullptr; }
  // The stream in which asynchronous work goes; null where work is done when a call returns.
  virtual void* stream() { return nullptr; }
};

// Where an error happened: rethrown with the op's name and Python line in the text.
struct ExecutionError : std::runtime_error {
  using std::runtime_error::runtime_error;
  // The nodes of the executable's graph that could not be computed, each with its own error (null: this one). None: all
  // nodes of the step that threw it.
  std::vector<std::pair<uint32_t, std::exception_ptr>> befell;
};

// Why each output of a run could not be computed; null: it was.
using Failures = std::vector<std::exception_ptr>;
// Some of a run failed; all that does not depend on it was computed. The text is the first failure's.
struct PartialFailure final : ExecutionError {
  PartialFailure(const std::string& text, std::exception_ptr f, Failures o)
      : ExecutionError(text), first(std::move(f)), outputs(std::move(o)) {}
  std::exception_ptr first;
  Failures outputs;
};

// Why no plan of a part that came before served its sizes.
struct Refusal {
  std::string what, where;  // op and condition; Python line
};

// What it took to make something runnable of recorded ops.
struct HostCost {
  int64_t ops = 0;
  double us = 0;
  HostCost& operator+=(const HostCost& o) {
    ops += o.ops, us += o.us;
    return *this;
  }
};

struct CompileStats {
  int64_t kernels = 0, library_calls = 0, external_calls = 0;
  int64_t parts = 0, new_parts = 0;  // into which it was cut, and that were not there already (part_cache.h)
  int64_t unplanned_parts = 0;       // that run op by op, as they came too seldom (CompileOptions::unplanned)
  int64_t resized_parts = 0;         // made of a plan for other sizes (generic_part.h)
  int64_t parts_ahead = 0;           // that ran while the rest was still being recorded (parts_ahead.h)
  int64_t turns = 0;  // parts that do what an earlier one did with the same parameters, as a loop's turns do
  double passes_ms = 0, lowering_ms = 0, codegen_ms = 0;
  HostCost cutting, unplanned, resizing;  // of parts: all that are cut, those of unplanned_parts and of resized_parts
  std::vector<Refusal> refusals;          // of parts for which plans for other sizes were there, and were made anew
  CompileStats& operator+=(const CompileStats& o) {
    kernels += o.kernels, library_calls += o.library_calls, external_calls += o.external_calls;
    parts += o.parts, new_parts += o.new_parts, resized_parts += o.resized_parts, unplanned_parts += o.unplanned_parts,
        parts_ahead += o.parts_ahead, turns += o.turns;
    passes_ms += o.passes_ms, lowering_ms += o.lowering_ms, codegen_ms += o.codegen_ms;
    cutting += o.cutting, unplanned += o.unplanned, resizing += o.resizing;
    refusals.insert(refusals.end(), o.refusals.begin(), o.refusals.end());
    return *this;
  }
};

// An index that a kernel found out of range, for an op whose error is torch's IndexError (a library's is nested in
// another).
struct IndexError : ExecutionError {
  using ExecutionError::ExecutionError;
};

// The host had no memory for a run.
struct OutOfMemory : ExecutionError {
  using ExecutionError::ExecutionError;
};

class Executable {
 public:
  virtual ~Executable() = default;
  // `inputs`: one buffer per graph input (dense row-major). `donate[i]` says that input i's buffer is not needed
  // afterwards and may be reused for outputs. `scalars`: bits of a double for floating scalar nodes, int64 for others.
  // Fills `outputs`, one per graph output; an output may share an input's buffer if it is that input or was donated.
  // Throws PartialFailure at the end for what fails on the way, and OutOfMemory at once.
  virtual void run(Host& host, std::span<Buffer> inputs, std::span<const bool> donate, std::span<const int64_t> scalars,
                   std::span<Buffer> outputs) = 0;
  // What becomes of the outputs where these inputs could not be computed.
  virtual Failures failures_of(const Failures& inputs) const = 0;
  virtual const CompileStats& stats() const = 0;
  virtual std::string plan_text() const = 0;
  // Whether any thread may run it, with any number of threads, and gets the same bits.
  virtual bool runs_anywhere(const Host& /*host*/) const { return false; }
  // Bytes of input i that a run copies first if it is not donated, because results are written over them.
  virtual int64_t bytes_written_over(size_t /*i*/) const { return 0; }
  // Whether a run writes nothing to input i, donated, but what as_strided_scatter nodes put into windows of it.
  virtual bool only_scatters_to(size_t /*i*/) const { return false; }
};

class Device;

// When a part gets a plan that serves other sizes (generic_part.h): the second time that they are others, at first, or
// never.
enum class OtherSizes : uint8_t { Never, Second, Always };

struct CompileOptions {
  // Makes what runs a part that came too seldom for a plan; null, or if it gives null: its plan does.
  std::unique_ptr<Executable> (*unplanned)(ir::Graph graph, const CompileOptions& options) = nullptr;
  bool unplanned_always = false;  // nor is any other part planned
  bool planned_soon = false;      // the whole will be: no part of it is planned that has no plan yet
  Device* device = nullptr;       // null: the CPU
  bool fusion = true;
  bool pack = true;  // operands of library calls that seldom change (jit/run/packed_operands.h)
  OtherSizes other_sizes = OtherSizes::Second;
  bool little_effort = false;      // library calls that are made fast rather than run fast
  bool interpret_kernels = false;  // run loop nests through the reference interpreter: slow, for tests
  lowering::MatmulSettings matmul;
  int threads = 0;          // 0: as many as OpenMP would use
  std::string dump_folder;  // empty: no dump
  std::string dump_stages;
  std::vector<std::string> disabled_passes;
};

// Runs the passes, fuses, plans memory and compiles. Throws InternalError.
std::unique_ptr<Executable> compile(ir::Graph graph, const CompileOptions& options);
// The passes that it runs, in their order.
std::vector<std::string> pass_names(const CompileOptions& options);

}  // namespace lazuli::jit
