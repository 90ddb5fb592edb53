// Compiling in two: what may be done for sizes that are not known yet (ir/size.h), and the rest.
#pragma once
#include <optional>
#include "jit/dump.h"
#include "jit/run/executor.h"
#include "lowering/plan/generic_plan.h"

namespace lazuli::jit {

// `graph` becomes the simplified one that the draft is of. Adds to `stats`.
lowering::Plan draft(ir::Graph& graph, const CompileOptions& options, Dump& dump, CompileStats& stats);

class PlanExecutable final : public Executable {
 public:
  // Finishes the plan, a draft, and loads its kernels. `stats`: of the draft.
  PlanExecutable(std::shared_ptr<lowering::PlannedGraph> planned, const CompileOptions& options, Dump& dump,
                 const CompileStats& stats);
  // Graph and plan have other numbers now, and the plan is a draft again.
  void resize(const CompileOptions& options);

  void run(Host& host, std::span<Buffer> inputs, std::span<const bool> donate, std::span<const int64_t> scalars,
           std::span<Buffer> outputs) override {
    executor_->run(host, inputs, donate, scalars, outputs);
  }
  Failures failures_of(const Failures& inputs) const override { return executor_->failures_of(inputs); }
  const CompileStats& stats() const override { return stats_; }
  std::string plan_text() const override { return lowering::print(planned_->graph, planned_->plan); }
  int64_t bytes_written_over(size_t i) const override;
  bool only_scatters_to(size_t i) const override;
  bool runs_anywhere(const Host& host) const override;

 private:
  const std::shared_ptr<lowering::PlannedGraph> planned_;
  std::optional<Executor> executor_;
  CompileStats stats_;
};

}  // namespace lazuli::jit
