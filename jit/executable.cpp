#include "jit/executable.h"
#include <algorithm>
#include <chrono>
#include "ir/error.h"
#include "ir/passes/pass.h"
#include "jit/compile.h"
#include "jit/device.h"
#include "jit/dump.h"
#include "jit/executor.h"
#include "lowering/align_products.h"
#include "lowering/crop_pads.h"

namespace lazuli::jit {
namespace {

double elapsed_ms(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - since).count();
}

class PlanExecutable final : public Executable {
 public:
  PlanExecutable(ir::Graph graph, lowering::Plan plan, Device& device)
      : graph_(std::move(graph)), executor_(graph_, std::move(plan), device) {}

  void load(const CompileOptions& options, Dump& dump) { executor_.load(options, dump); }
  void run(Host& host, std::span<Buffer> inputs, std::span<const bool> donate, std::span<const int64_t> scalars,
           std::span<Buffer> outputs) override {
    executor_.run(host, inputs, donate, scalars, outputs);
  }
  Failures failures_of(const Failures& inputs) const override { return executor_.failures_of(inputs); }
  const CompileStats& stats() const override { return stats_; }
  CompileStats& stats() { return stats_; }
  std::string plan_text() const override { return lowering::print(graph_, executor_.plan()); }
  int64_t bytes_written_over(size_t i) const override {
    for (const lowering::Block& b : executor_.plan().blocks)
      if (b.kind == lowering::Block::Input && b.index == i && b.donated) return int64_t{b.bytes};
    return 0;
  }
  bool runs_anywhere(const Host& host) const override {
    return std::ranges::all_of(executor_.plan().steps, [&](const lowering::PlanStep& step) {
      if (step.kind == lowering::PlanStep::Library) return !step.call->depends_on_threads();
      if (step.kind == lowering::PlanStep::External) return host.runs_anywhere(step.external_call);
      return step.kind == lowering::PlanStep::Kernel;
    });
  }

 private:
  ir::Graph graph_;
  Executor executor_;
  CompileStats stats_;
};

Device& device_of(const CompileOptions& options) { return options.device ? *options.device : cpu_device(); }

ir::Graph simplified(ir::Graph graph, const CompileOptions& options, Dump& dump) {
  ir::PassOptions passes;
  passes.disabled = options.disabled_passes;
#ifdef LAZULI_VERIFY
  passes.verify = true;
#endif
  if (!options.dump_folder.empty())
    passes.on_change = [&](const ir::Pass& pass, const ir::Graph&, const ir::Graph& after) { dump.pass(pass.name, after); };
  return lowering::crop_pads(ir::run_passes(std::move(graph), ir::all_passes(), passes));
}

}  // namespace

std::string label(const ir::Graph& graph, const lowering::PlanStep& step) {
  std::string text;
  for (size_t i = 0; i < step.nodes.size() && i < 6; ++i)
    text += (i ? "_" : "") + std::string(ir::name(graph.nodes[step.nodes[i]].op));
  return text.empty() ? "copy" : text;
}

lowering::Plan draft(ir::Graph& graph, const CompileOptions& options, Dump& dump, CompileStats& stats) {
  dump.trace(graph);
  auto start = std::chrono::steady_clock::now();
  const lowering::PlanOptions plan_options = device_of(options).plan_options(options);
  graph = lowering::align_products(simplified(std::move(graph), options, dump), *plan_options.libraries);
  stats.passes_ms += elapsed_ms(start);
  dump.picture(graph);
  start = std::chrono::steady_clock::now();
  lowering::Plan plan = lowering::draft_plan(graph, plan_options);
  stats.lowering_ms += elapsed_ms(start);
  return plan;
}

std::unique_ptr<Executable> finish(ir::Graph graph, lowering::Plan plan, const CompileOptions& options, Dump& dump,
                                   CompileStats stats) {
  Device& device = device_of(options);
  auto start = std::chrono::steady_clock::now();
  lowering::finish_plan(graph, device.plan_options(options), plan);
  stats.lowering_ms += elapsed_ms(start);
  dump.plan(graph, plan);
  for (const lowering::PlanStep& step : plan.steps) {
    const bool kernel = step.kind == lowering::PlanStep::Kernel, library = step.kind == lowering::PlanStep::Library;
    ++(kernel ? stats.kernels : library ? stats.library_calls : stats.external_calls);
  }
  start = std::chrono::steady_clock::now();
  auto made = std::make_unique<PlanExecutable>(std::move(graph), std::move(plan), device);
  made->load(options, dump);
  stats.codegen_ms += elapsed_ms(start);
  made->stats() = stats;
  return made;
}

std::unique_ptr<Executable> compile(ir::Graph graph, const CompileOptions& options) {
  CompileStats stats;
  Dump dump(options);
  lowering::Plan plan = draft(graph, options, dump, stats);
  return finish(std::move(graph), std::move(plan), options, dump, stats);
}

}  // namespace lazuli::jit
