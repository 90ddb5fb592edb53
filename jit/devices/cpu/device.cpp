// The CPU as a device: kernels from LLVM ORC, spread over OpenMP's threads.
#include "jit/device.h"
#include <algorithm>
#include <cstring>
#include <omp.h>
#include <stdexcept>
#include "jit/arena_pool.h"
#include "jit/arguments.h"
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

// Whether all elements of a strided window lie in [0, size).
template <class T>
bool all_below(const char* data, const ir::Dims& sizes, const ir::Dims& strides, size_t d, int64_t size) {
  if (d == sizes.size()) {
    const int64_t i = *reinterpret_cast<const T*>(data);
    return i >= 0 && i < size;
  }
  const int64_t n = strides[d] == 0 ? std::min<int64_t>(sizes[d], 1) : sizes[d];
  bool ok = true;
  for (int64_t k = 0; k < n; ++k) ok &= all_below<T>(data + k * strides[d] * sizeof(T), sizes, strides, d + 1, size);
  return ok;
}

class CpuKernelStep final : public KernelStep {
 public:
  // Without a function the loop nest is interpreted.
  CpuKernelStep(const PlanStep& step, lowering::KernelFn function) : step_(step), function_(function) {
    first_units_ = {0};
    for (int64_t c = 0; c < step.chunks; ++c) {
      const int64_t* args = arguments_.add(step, c);
      first_units_.push_back(first_units_.back() + lowering::units(step.loops.nest, args));
    }
    stride_ = lowering::KernelArgsLayout(step.loops.nest).total;
    work_ = work_of(step.loops) * static_cast<double>(step.chunks);
  }

  void run(std::span<const Buffer> memory, std::span<const int64_t> scalars, void*) override {
    arguments_.fill(memory, scalars);
    check_indices(memory);
    const int64_t units = first_units_.back();
    const int64_t wanted = std::min<int64_t>(units, static_cast<int64_t>(work_ / kGrain));
    const int threads = static_cast<int>(std::min<int64_t>(wanted, omp_get_max_threads()));
    if (threads <= 1) return run_range(0, units);
#pragma omp parallel num_threads(threads)
    {
      const int64_t n = omp_get_num_threads(), i = omp_get_thread_num();
      run_range(units * i / n, units * (i + 1) / n);
    }
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

  void check_indices(std::span<const Buffer> memory) const {
    const lowering::Loops& loops = step_.loops;
    for (const lowering::IndexCheck& c : loops.checks) {
      const lowering::BoundAccess& a = loops.accesses[c.access];
      const ir::DType type = loops.nest.accesses[c.access].dtype;
      const char* data = static_cast<const char*>(memory[step_.blocks[c.access]].data) + a.offset * ir::item_size(type);
      const bool ok = type == ir::DType::I64   ? all_below<int64_t>(data, loops.sizes, a.strides, 0, c.size)
                      : type == ir::DType::I32 ? all_below<int32_t>(data, loops.sizes, a.strides, 0, c.size)
                                               : true;
      if (!ok) throw std::out_of_range("index out of range in self");
    }
  }

  const PlanStep& step_;
  lowering::KernelFn function_;
  Arguments arguments_;
  std::vector<int64_t> first_units_;  // of each chunk, then their total
  size_t stride_ = 0;                 // of a chunk's arguments
  double work_ = 0;                   // in element instructions
};

class CpuDevice final : public Device {
 public:
  lowering::PlanOptions plan_options(const CompileOptions& options) const override {
    return {options.fusion, options.threads > 0 ? options.threads : omp_get_max_threads(), &lowering::cpu_libraries()};
  }

  std::vector<std::unique_ptr<KernelStep>> load(const ir::Graph& graph, const lowering::Plan& plan,
                                                const CompileOptions& options, Dump& dump) override {
    std::vector<std::unique_ptr<KernelStep>> steps(plan.steps.size());
    for (size_t s = 0; s < steps.size(); ++s) {
      const PlanStep& step = plan.steps[s];
      if (step.kind != PlanStep::Kernel) continue;
      lowering::KernelFn function = nullptr;
      if (!options.interpret_kernels) {
        const Kernel& kernel = kernel_for(step.loops.nest, label(graph, step));
        function = kernel.function;
        dump.kernel(kernel.name, step.loops.nest);
      }
      steps[s] = std::make_unique<CpuKernelStep>(step, function);
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
