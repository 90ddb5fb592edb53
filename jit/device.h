// A kind of machine that plans run on: it loads a plan's kernels and runs them over its own memory.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>
#include "ir/error.h"
#include "jit/dump.h"
#include "jit/run/executable.h"
#include "lowering/plan/plan.h"

namespace lazuli::jit {

// A launch of one or several kernel steps with their code loaded, which lacks only addresses and run-time numbers.
class KernelStep {
 public:
  virtual ~KernelStep() = default;
  // `memory`: by block of the plan. Where work is asynchronous, it is only enqueued.
  virtual void run(std::span<const Buffer> memory, std::span<const int64_t> scalars, void* stream) = 0;
  // The plan's sizes are others now (generic_part.h).
  virtual void resize() = 0;
};

// Launches captured from a stream, which are launched again as one.
class CapturedLaunches {
 public:
  virtual ~CapturedLaunches() = default;
  // Kernels of ours get these addresses and numbers, as KernelStep::run() does; all else has those of the capture.
  virtual void launch(std::span<const Buffer> memory, std::span<const int64_t> scalars, void* stream) = 0;
};

// A place in a stream.
class Mark {
 public:
  virtual ~Mark() = default;
  virtual bool passed() = 0;  // whether all work before it is done
};

class Device {
 public:
  virtual ~Device() = default;
  virtual lowering::PlanOptions plan_options(const CompileOptions& options) const = 0;
  // One for each step of the plan, null for those that are no kernels or joined to a step before. Graph and plan
  // outlive them.
  virtual std::vector<std::unique_ptr<KernelStep>> load(const ir::Graph& graph, const lowering::Plan& plan,
                                                        const CompileOptions& options, Dump& dump) = 0;
  // Bytes that divide the address of each buffer that a plan for it is given.
  virtual int64_t alignment() const { return 1; }
  // Whether the host's cores have nothing to do while it computes, and so may all compile for it.
  virtual bool leaves_host_alone() const { return false; }
  // Before the steps of a run, on the thread that runs them.
  virtual void start() {}
  // Throws ExecutionError for a check of a kernel that has failed since, where runs do not wait for their kernels. For
  // who has just waited.
  virtual void raise_failures() {}
  // Memory for a run's temporaries; throws OutOfMemory.
  virtual Buffer arena(Host& host, size_t bytes) = 0;
  // What there is to read of the kernels of a launch: its steps are `members`, its name begins with `name`.
  virtual std::vector<Dump::Text> texts(std::span<const lowering::PlanStep> members, const std::string& name) const = 0;
  virtual void free_memory() {}  // as the Host's
  // Whether it has the next two.
  virtual bool can_capture() const { return false; }
  // What `enqueue` puts into `stream`, which is nobody else's, without running it. The kernel steps outlive it. Throws
  // what `enqueue` throws, and std::runtime_error for what cannot be captured.
  virtual std::unique_ptr<CapturedLaunches> capture(void* /*stream*/, const std::function<void()>& /*enqueue*/) {
    throw InternalError("this device captures no launches");
  }
  virtual std::unique_ptr<Mark> mark(void* /*stream*/) { throw InternalError("this device has no streams"); }
  virtual void copy(void* to, const void* from, size_t bytes, void* stream) = 0;
  virtual void call(lowering::LibraryCall& library, const void* const* operands, void* const* results, void* scratch,
                    void* stream) = 0;
};

Device& cpu_device();

// "add_mul_sum": the ops that a kernel computes, for its name.
std::string label(const ir::Graph& graph, const lowering::PlanStep& step);

}  // namespace lazuli::jit
