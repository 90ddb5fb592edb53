// Who is to blame for a difference that a shadow run has found: the op, and what of our machinery it goes away without.
#pragma once
#include <functional>
#include <ATen/core/Tensor.h>
#include "ir/blame.h"
#include "jit/run/executable.h"
#include "lazy/shadow/judge.h"

namespace lazuli::lazy {

// A graph with what it runs on.
struct Case {
  ir::Graph graph;
  std::vector<at::Tensor> inputs;
  std::vector<int64_t> scalars;
};

// Compiles and runs it.
std::vector<at::Tensor> compute(const Case& c, const jit::CompileOptions& options);

struct Culprit {
  uint32_t node = 0;           // of the trace's graph
  bool alone = true;           // the op is computed wrong whatever is computed with it
  std::vector<uint32_t> with;  // else: what of the trace must be computed together with it for that
  bool only_in_trace = false;  // what it depends on is not enough: the whole trace takes part
  Case shown;                  // the least that shows the difference
  Difference difference;       // there
  std::vector<std::string> gone_without;
  // With whom the reference interpreter agrees: "eager", "lazuli", "neither", "" (not asked)
  std::string interpreter;
};

Culprit find_culprit(const Case& whole, const Difference& difference, const jit::CompileOptions& options);

}  // namespace lazuli::lazy
