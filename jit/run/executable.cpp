#include "jit/run/executable.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include "ir/error.h"
#include "ir/passes/pass.h"
#include "jit/compile.h"
#include "jit/device.h"
#include "jit/dump.h"
#include "lowering/graph/target_passes.h"

namespace lazuli::jit {
namespace {

double elapsed_ms(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - since).count();
}

Device& device_of(const CompileOptions& options) { return options.device ? *options.device : cpu_device(); }

ir::Graph simplified(ir::Graph graph, const lowering::Libraries& libraries, const CompileOptions& options, Dump& dump) {
  ir::PassOptions passes;
  passes.disabled = options.disabled_passes;
#ifdef LAZULI_VERIFY
  passes.verify = true;
#endif
  if (!options.dump_folder.empty())
    passes.on_change = [&](const ir::Pass& pass, const ir::Graph&, const ir::Graph& after) {
      dump.pass(pass.name, after);
    };
  return ir::run_passes(std::move(graph), lowering::all_passes(libraries), passes);
}

}  // namespace

uint64_t next_executable_number() {
  static std::atomic<uint64_t> next = 1;
  return next++;
}

std::string label(const ir::Graph& graph, const lowering::PlanStep& step) {
  std::string text;
  for (size_t i = 0; i < step.nodes.size() && i < 6; ++i)
    text += (i ? "_" : "") + std::string(ir::name(graph.nodes[step.nodes[i]].op));
  return text.empty() ? "copy" : text;
}

std::vector<std::string> pass_names(const CompileOptions& options) {
  const lowering::PlanOptions plan_options = device_of(options).plan_options(options);
  std::vector<std::string> names;
  for (const ir::Pass& pass : lowering::all_passes(*plan_options.libraries)) names.emplace_back(pass.name);
  return names;
}

lowering::Plan draft(ir::Graph& graph, const CompileOptions& options, Dump& dump, CompileStats& stats) {
  dump.trace(graph);
  auto start = std::chrono::steady_clock::now();
  const lowering::PlanOptions plan_options = device_of(options).plan_options(options);
  graph = simplified(std::move(graph), *plan_options.libraries, options, dump);
  stats.passes_ms += elapsed_ms(start);
  dump.picture(graph);
  start = std::chrono::steady_clock::now();
  lowering::Plan plan = lowering::draft_plan(graph, plan_options);
  stats.lowering_ms += elapsed_ms(start);
  return plan;
}

PlanExecutable::PlanExecutable(std::shared_ptr<lowering::PlannedGraph> planned, const CompileOptions& options,
                               Dump& dump, const CompileStats& stats)
    : planned_(std::move(planned)), stats_(stats) {
  auto& [graph, plan] = *planned_;
  Device& device = device_of(options);
  auto start = std::chrono::steady_clock::now();
  lowering::finish_plan(graph, device.plan_options(options), plan);
  stats_.lowering_ms += elapsed_ms(start);
  dump.plan(graph, plan);
  for (const lowering::PlanStep& step : plan.steps) {
    const bool kernel = step.kind == lowering::PlanStep::Kernel, library = step.kind == lowering::PlanStep::Library;
    ++(kernel ? stats_.kernels : library ? stats_.library_calls : stats_.external_calls);
  }
  start = std::chrono::steady_clock::now();
  executor_.emplace(graph, plan, device);
  executor_->load(options, dump);
  stats_.codegen_ms += elapsed_ms(start);
}

void PlanExecutable::resize(const CompileOptions& options) {
  lowering::finish_plan(planned_->graph, device_of(options).plan_options(options), planned_->plan);
  executor_->resize();
  stats_.lowering_ms = stats_.codegen_ms = 0;  // of the first time
}

int64_t PlanExecutable::bytes_written_over(size_t i) const {
  for (const lowering::Block& b : planned_->plan.blocks)
    if (b.kind == lowering::Block::Input && b.index == i && b.donated) return int64_t{b.bytes};
  return 0;
}

bool PlanExecutable::only_scatters_to(size_t i) const {
  const auto& [graph, plan] = *planned_;
  const auto is_input = [&](uint32_t block) {
    return block != lowering::kNoBlock && plan.blocks[block].kind == lowering::Block::Input &&
           plan.blocks[block].index == i;
  };
  const auto is_scattered_to_it = [&](ir::Value v) {
    while (graph[v].op == ir::Op::as_strided_scatter) v = graph[v].inputs[0];
    return graph[v].op == ir::Op::input && graph[v].attrs.number(0) == static_cast<int64_t>(i);
  };
  return std::ranges::all_of(plan.steps, [&](const lowering::PlanStep& step) {
    for (size_t a = 0; a < step.loops.accesses.size(); ++a)
      if (step.loops.nest.accesses[a].store && is_input(step.blocks[a]) &&
          (step.loops.accesses[a].partial || !is_scattered_to_it(step.loops.accesses[a].value)))
        return false;
    return std::ranges::none_of(step.results, [&](const lowering::BlockView& r) { return is_input(r.block); });
  });
}

bool PlanExecutable::runs_anywhere(const Host& host) const {
  return std::ranges::all_of(planned_->plan.steps, [&](const lowering::PlanStep& step) {
    if (step.kind == lowering::PlanStep::Library) return !step.call->depends_on_threads();
    if (step.kind == lowering::PlanStep::External) return host.runs_anywhere(step.external_call);
    return step.kind == lowering::PlanStep::Kernel;
  });
}

std::unique_ptr<Executable> compile(ir::Graph graph, const CompileOptions& options) {
  CompileStats stats;
  Dump dump(options);
  auto planned = std::make_shared<lowering::PlannedGraph>(std::move(graph));
  planned->plan = draft(planned->graph, options, dump, stats);
  return std::make_unique<PlanExecutable>(std::move(planned), options, dump, stats);
}

}  // namespace lazuli::jit
