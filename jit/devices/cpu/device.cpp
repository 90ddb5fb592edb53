// The CPU as a device: kernels from LLVM ORC, spread over OpenMP's threads.
#include "jit/device.h"
#include <algorithm>
#include <cstring>
#include <omp.h>
#include "jit/arena_pool.h"
#include "jit/arguments.h"
#include "jit/devices/cuda/launch.h"
#include "jit/failures.h"
#include "jit/kernel.h"

namespace lazuli::jit {

using lowering::PlanStep;

namespace {

// Element instructions that are worth another thread; below, waking it costs more than it saves.
constexpr double kGrain = 64 * 1024;

double work_of(const lowering::Loops& loops) {
  double points = 1;
  for (int64_t n : loops.sizes) points *= static_cast<double>(n);
  return points * static_cast<double>(loops.nest.insts.size());
}

class CpuKernelStep final : public KernelStep {
 public:
  // Without a function the loop nest is interpreted.
  CpuKernelStep(const ir::Graph& graph, const PlanStep& step, lowering::KernelFn function)
      : step_(step), function_(function), failures_(failure_texts(graph, step)) {
    const lowering::KernelArgsLayout at(step.loops.nest);
    first_units_ = {0};
    for (int64_t c = 0; c < step.chunks; ++c) {
      int64_t* args = arguments_.add(step, c);
      if (step.loops.nest.checks) args[at.status] = reinterpret_cast<int64_t>(&status_);
      first_units_.push_back(first_units_.back() + lowering::units(step.loops.nest, args));
    }
    stride_ = at.total;
    work_ = work_of(step.loops) * static_cast<double>(step.chunks);
  }

  void run(std::span<const Buffer> memory, std::span<const int64_t> scalars, void*) override {
    arguments_.fill(memory, scalars);
    status_ = 0;
    const int64_t units = first_units_.back();
    const int64_t wanted = std::min<int64_t>(units, static_cast<int64_t>(work_ / kGrain));
    const int threads = static_cast<int>(std::min<int64_t>(wanted, omp_get_max_threads()));
    if (threads <= 1) {
      run_range(0, units);
    } else {
#pragma omp parallel num_threads(threads)
      {
        const int64_t n = omp_get_num_threads(), i = omp_get_thread_num();
        run_range(units * i / n, units * (i + 1) / n);
      }
    }
    if (status_ != 0) throw ExecutionError(failures_[static_cast<size_t>(status_ - 1)]);
  }

 private:
  // Units [begin, end) of all chunks, in order.
  void run_range(int64_t begin, int64_t end) const {
    for (size_t c = 0; c + 1 < first_units_.size(); ++c) {
      const int64_t first = std::max(begin, first_units_[c]), last = std::min(end, first_units_[c + 1]);
      if (first >= last) continue;
      const int64_t* args = arguments_.data() + c * stride_;
      if (function_)
        function_(args, first - first_units_[c], last - first_units_[c]);
      else
        lowering::interpret(step_.loops.nest, args, first - first_units_[c], last - first_units_[c]);
    }
  }

  const PlanStep& step_;
  lowering::KernelFn function_;
  const std::vector<std::string> failures_;  // what each of the kernel's checks says
  int64_t status_ = 0;                       // the kernel's status word
  Arguments arguments_;
  std::vector<int64_t> first_units_;  // of each chunk, then their total
  size_t stride_ = 0;                 // of a chunk's arguments
  double work_ = 0;                   // in element instructions
};

class CpuDevice final : public Device {
 public:
  lowering::PlanOptions plan_options(const CompileOptions& options) const override {
    return {.fusion = options.fusion, .threads = options.threads > 0 ? options.threads : omp_get_max_threads()};
  }

  std::vector<std::unique_ptr<KernelStep>> load(const ir::Graph& graph, const lowering::Plan& plan,
                                                const CompileOptions& options, Dump& dump) override {
    std::vector<std::unique_ptr<KernelStep>> steps(plan.steps.size());
    for (size_t s = 0; s < steps.size(); ++s) {
      const PlanStep& step = plan.steps[s];
      if (step.kind != PlanStep::Kernel) continue;
      cuda::check_for_gpu(step);
      lowering::KernelFn function = nullptr;
      if (!options.interpret_kernels) {
        const Kernel& kernel = kernel_for(step.loops.nest, label(graph, step));
        function = kernel.function;
        dump.kernel(kernel.name, step.loops.nest);
      }
      steps[s] = std::make_unique<CpuKernelStep>(graph, step, function);
    }
    return steps;
  }

  Buffer arena(Host&, size_t bytes) override {
    auto arena = std::make_shared<Arena>(bytes);
    return {arena->data(), bytes, arena};
  }
  void copy(void* to, const void* from, size_t bytes, void*) override { std::memcpy(to, from, bytes); }
  void call(lowering::LibraryCall& library, const void* const* operands, void* const* results, void* scratch,
            void*) override {
    library.run(operands, results, scratch);
  }
};

}  // namespace

Device& cpu_device() {
  static CpuDevice device;
  return device;
}

}  // namespace lazuli::jit
