// Shadow runs: a trace is computed a second time, one op at a time by torch's own kernels, from the same inputs,
// run-time numbers and random numbers, and every value that is alive at its end is compared (judge.h). Of a difference
// that rounding does not explain, the op is looked for that causes it (culprit.h), and what it takes to see it again is
// written to a folder (reproduction.h). On while config().shadow is not 0.
#pragma once
#include <atomic>
#include <functional>
#include <span>
#include "jit/run/executable.h"
#include "lazy/support/config.h"
#include "lazy/trace/trace.h"

namespace lazuli::lazy {

class Shadow {
 public:
  static bool is_due() { return config().shadow != 0; }
  // Whether there is something to raise.
  static inline std::atomic<bool> has_found = false;

  // Before the trace runs, whose entries were recorded at these lines: what it runs with. Of inputs that the run may
  // write over, `donate`, this is a copy.
  Shadow(const Trace& trace, const std::vector<uint32_t>& lines, std::span<const ValueId> live,
         std::span<const jit::Buffer> inputs, std::span<const bool> donate);
  // After it has run. A difference becomes a report; nothing is thrown. `options`: how the trace was compiled.
  void check(std::span<const jit::Buffer> outputs, const std::function<jit::CompileOptions()>& options);

 private:
  ir::Graph graph_;
  std::vector<at::Tensor> inputs_;
  std::vector<int64_t> scalars_;
  std::vector<Derivative> derivatives_;
};

// Throws a torch error with the last report's text, once, if config().shadow_action says so.
void raise_shadow_mismatch();
// The reports since somebody last took them, as a JSON list.
std::string take_shadow_reports();

}  // namespace lazuli::lazy
