#include "jit/executable.h"
#include <chrono>
#include <omp.h>
#include "ir/error.h"
#include "ir/passes/pass.h"
#include "jit/dump.h"
#include "jit/executor.h"
#include "jit/kernel.h"
#include "lowering/crop_pads.h"

namespace lazuli::jit {
namespace {

double elapsed_ms(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - since).count();
}

class PlanExecutable final : public Executable {
 public:
  PlanExecutable(ir::Graph graph, lowering::Plan plan, std::vector<lowering::KernelFn> functions, CompileStats stats)
      : graph_(std::move(graph)), executor_(graph_, std::move(plan), std::move(functions)), stats_(stats) {}

  void run(Host& host, std::span<Buffer> inputs, std::span<const bool> donate, std::span<const int64_t> scalars,
           std::span<Buffer> outputs) override {
    executor_.run(host, inputs, donate, scalars, outputs);
  }
  const CompileStats& stats() const override { return stats_; }
  std::string plan_text() const override { return lowering::print(graph_, executor_.plan()); }

 private:
  ir::Graph graph_;
  Executor executor_;
  CompileStats stats_;
};

// "add_mul_sum": the ops that a kernel computes, for its name.
std::string label(const ir::Graph& graph, const lowering::PlanStep& step) {
  std::string text;
  for (size_t i = 0; i < step.nodes.size() && i < 6; ++i)
    text += (i ? "_" : "") + std::string(ir::name(graph.nodes[step.nodes[i]].op));
  return text.empty() ? "copy" : text;
}

ir::Graph simplified(ir::Graph graph, const CompileOptions& options, Dump& dump) {
  ir::PassOptions passes;
  passes.disabled = options.disabled_passes;
#ifdef LAZULI_VERIFY
  passes.verify = true;
#endif
  passes.on_change = [&](const ir::Pass& pass, const ir::Graph&, const ir::Graph& after) {
    dump.pass(pass.name, after);
  };
  return lowering::crop_pads(ir::run_passes(std::move(graph), ir::all_passes(), passes));
}

}  // namespace

std::unique_ptr<Executable> compile(ir::Graph graph, const CompileOptions& options) {
  CompileStats stats;
  Dump dump(options);
  dump.trace(graph);
  auto start = std::chrono::steady_clock::now();
  graph = simplified(std::move(graph), options, dump);
  stats.passes_ms = elapsed_ms(start);
  dump.picture(graph);
  start = std::chrono::steady_clock::now();
  lowering::Plan plan =
      lowering::make_plan(graph, {options.fusion, options.threads > 0 ? options.threads : omp_get_max_threads()});
  stats.lowering_ms = elapsed_ms(start);
  dump.plan(graph, plan);
  start = std::chrono::steady_clock::now();
  std::vector<lowering::KernelFn> functions;
  for (const lowering::PlanStep& step : plan.steps) {
    lowering::KernelFn function = nullptr;
    switch (step.kind) {
      case lowering::PlanStep::Kernel:
        ++stats.kernels;
        if (!options.interpret_kernels) {
          const Kernel& kernel = kernel_for(step.loops.nest, label(graph, step));
          function = kernel.function;
          dump.kernel(kernel.name, step.loops.nest);
        }
        break;
      case lowering::PlanStep::Library:
        ++stats.library_calls;
        break;
      case lowering::PlanStep::External:
        ++stats.external_calls;
        break;
    }
    functions.push_back(function);
  }
  stats.codegen_ms = elapsed_ms(start);
  return std::make_unique<PlanExecutable>(std::move(graph), std::move(plan), std::move(functions), stats);
}

}  // namespace lazuli::jit
