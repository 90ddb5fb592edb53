// Kernel steps of one nest on the CPU, over other memory each: one parallel region does all of them, and threads share
// out their work as if it were one kernel's.
#pragma once
#include "jit/device.h"
#include "jit/kernels/kernel.h"
#include "jit/run/arguments.h"

namespace lazuli::jit {

Extent extent_of(const lowering::Loops& loops);

class CpuLaunch final : public KernelStep {
 public:
  // Without a kernel the loop nests are interpreted. Graph and steps outlive it.
  CpuLaunch(const ir::Graph& graph, std::span<const lowering::PlanStep> steps, std::shared_ptr<const Kernel> kernel);
  void run(std::span<const Buffer> memory, std::span<const int64_t> scalars, void*) override;
  void resize() override;

 private:
  // A chunk of a step: units of equal weight, side by side with those of the other pieces.
  struct Piece {
    int64_t begin, units, weight;
    size_t arguments;  // where its array begins
  };
  void add(const lowering::PlanStep& step, int64_t* status);
  void run_range(int64_t begin, int64_t end) const;
  // Throws the first check that failed, with the nodes of all that did.
  [[noreturn]] void raise_failures() const;

  const ir::Graph& graph_;
  const std::span<const lowering::PlanStep> steps_;
  const std::shared_ptr<const Kernel> kernel_;
  std::vector<std::vector<int64_t>> status_;  // of each step: its checks' status words
  Arguments arguments_;
  std::vector<Piece> pieces_;
  int64_t total_ = 0;  // weight: element instructions, roughly
  int64_t units_ = 0;
};

}  // namespace lazuli::jit
