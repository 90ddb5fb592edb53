// The CPU as a device: kernels from LLVM ORC, spread over OpenMP's threads.
#include "jit/device.h"
#include <cstring>
#include <memory>
#include <new>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <omp.h>
#include "jit/devices/cpu/launch.h"
#include "jit/devices/emission.h"
#include "jit/kernels/compiler.h"
#include "jit/kernels/improvement.h"
#include "jit/kernels/kernel.h"
#include "jit/run/arena_pool.h"
#include "lowering/threads/crew.h"

namespace lazuli::jit {

using lowering::PlanStep;

namespace {

class CpuDevice final : public Device {
 public:
  CpuDevice() { prepare_ahead(); }

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
    NewKernels made;
    if (!options.interpret_kernels && options.dump_folder.empty()) made = make_new_kernels(graph, plan);
    std::vector<std::unique_ptr<KernelStep>> steps(plan.steps.size());
    for (size_t s = 0; s < steps.size(); ++s) {
      const PlanStep& step = plan.steps[s];
      if (step.kind != PlanStep::Kernel || step.joined) continue;
      const auto [first, last] = plan.launch(static_cast<uint32_t>(s));
      const std::span members(plan.steps.data() + first, last - first);
      std::shared_ptr<const Kernel> kernel;
      if (!options.interpret_kernels) {
        const auto there = made.find(&step);
        kernel = there != made.end() && there->second
                     ? there->second
                     : kernel_for(step.loops.nest, [&] { return label(graph, step); }, extent_of(step.loops));
        dump.kernel(kernel->name, [&] { return texts(members, kernel->name); });
      }
      steps[s] = std::make_unique<CpuLaunch>(graph, members, std::move(kernel));
    }
    return steps;
  }

  std::vector<Dump::Text> texts(std::span<const PlanStep> members, const std::string& name) const override {
    const lowering::LoopNest& nest = members[0].loops.nest;  // all have the same
    return {{"nest", nest.print()},
            {"ll", Compiler::host().ir_text(nest, name)},
            {"s", Compiler::host().assembly_text(nest, name)}};
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
  using NewKernels = std::unordered_map<const PlanStep*, std::shared_ptr<const Kernel>>;

  // On all threads. What fails is tried again in its turn.
  static NewKernels make_new_kernels(const ir::Graph& graph, const lowering::Plan& plan) {
    std::vector<const PlanStep*> wanted;
    std::unordered_set<uint64_t> seen;
    for (const PlanStep& step : plan.steps)
      if (step.kind == PlanStep::Kernel && !step.joined && seen.insert(step.loops.nest.hash()).second &&
          !has_kernel(step.loops.nest))
        wanted.push_back(&step);
    if (wanted.size() < 2) return {};
    std::vector<std::shared_ptr<const Kernel>> made(wanted.size());
    lowering::share_out_heavy(static_cast<int64_t>(wanted.size()), [&](int64_t begin, int64_t end, int) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) try {
          made[i] =
              kernel_for(wanted[i]->loops.nest, [&] { return label(graph, *wanted[i]); }, extent_of(wanted[i]->loops));
        } catch (const std::exception&) {}
    });
    NewKernels kernels;
    for (size_t i = 0; i < wanted.size(); ++i) kernels.emplace(wanted[i], std::move(made[i]));
    return kernels;
  }
};

}  // namespace

Device& cpu_device() {
  static CpuDevice device;
  return device;
}

}  // namespace lazuli::jit
