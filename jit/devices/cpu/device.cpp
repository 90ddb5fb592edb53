// The CPU as a device: kernels from LLVM ORC, spread over OpenMP's threads.
#include "jit/device.h"
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <omp.h>
#include "jit/devices/cpu/launch.h"
#include "jit/devices/emission.h"
#include "jit/kernels/compiler.h"
#include "jit/kernels/kernel.h"
#include "jit/run/arena_pool.h"

namespace lazuli::jit {

using lowering::PlanStep;

namespace {

class CpuDevice final : public Device {
 public:
  lowering::PlanOptions plan_options(const CompileOptions& options) const override {
    return {.fusion = options.fusion,
            .groups = options.fusion,
            .threads = options.threads > 0 ? options.threads : omp_get_max_threads(),
            .pack = options.pack,
            .libraries =
                &lowering::cpu_libraries(options.little_effort ? lowering::Effort::Little : lowering::Effort::Much)};
  }

  std::vector<std::unique_ptr<KernelStep>> load(const ir::Graph& graph, const lowering::Plan& plan,
                                                const CompileOptions& options, Dump& dump) override {
    emit_for_absent_devices(graph, options);
    std::vector<std::unique_ptr<KernelStep>> steps(plan.steps.size());
    for (size_t s = 0; s < steps.size(); ++s) {
      const PlanStep& step = plan.steps[s];
      if (step.kind != PlanStep::Kernel || step.joined) continue;
      const auto [first, last] = plan.launch(static_cast<uint32_t>(s));
      const std::span members(plan.steps.data() + first, last - first);
      std::shared_ptr<const Kernel> kernel;
      if (!options.interpret_kernels) {
        kernel = kernel_for(step.loops.nest, [&] { return label(graph, step); });
        dump.kernel(kernel->name, [&] { return texts(step.loops.nest, kernel->name); });
      }
      steps[s] = std::make_unique<CpuLaunch>(graph, members, std::move(kernel));
    }
    return steps;
  }

  Buffer arena(Host&, size_t bytes) override {
    try {
      auto arena = std::make_shared<Arena>(bytes);
      return {arena->data(), bytes, arena};
    } catch (const std::bad_alloc&) {
      throw OutOfMemory("tried to allocate " + std::to_string(bytes) + " bytes of host memory");
    }
  }
  void free_memory() override { trim_arena_pool(); }
  void copy(void* to, const void* from, size_t bytes, void*) override { std::memcpy(to, from, bytes); }
  void call(lowering::LibraryCall& library, const void* const* operands, void* const* results, void* scratch,
            void*) override {
    library.run(operands, results, scratch);
  }

 private:
  static std::vector<Dump::Text> texts(const lowering::LoopNest& nest, const std::string& name) {
    return {{"nest", nest.print()},
            {"ll", Compiler::host().ir_text(nest, name)},
            {"s", Compiler::host().assembly_text(nest, name)}};
  }
};

}  // namespace

Device& cpu_device() {
  static CpuDevice device;
  return device;
}

}  // namespace lazuli::jit
