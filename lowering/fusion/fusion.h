// Which values get memory, and which kernels make them. Elementwise, view, reduction and index-read nodes disappear
// into groups, one kernel each, with as many outputs as are wanted outside; everything else is a call of its own.
//
// Three steps. First every node is either stored or inlined into whoever reads it: inlining costs recomputation, so
// what is wanted in several places and is not cheap is stored, and so are reductions and what calls and outputs need.
// Then images are laid out (layout_choice.h). Then groups, one for each stored value at first, merge along data and
// beside each other (shared input) as long as their terms fit one iteration space and no cycle arises. A value that in
// the end only its own group reads is not stored.
#pragma once
#include <memory>
#include <vector>
#include "lowering/fusion/library_calls.h"
#include "lowering/index/terms.h"
#include "lowering/index/value_table.h"

namespace lazuli::lowering {

struct FusionOptions {
  bool enabled = true;  // off: one kernel per node
  const Libraries* libraries = &cpu_libraries();
  int threads = 1;  // a kernel that keeps fewer busy should not walk its data more than once
};

class Epilogues;  // epilogue.h

struct FusionGroup {
  std::unique_ptr<Terms> terms;
  std::vector<bool> needed;  // per store of the terms: somebody outside reads it
};

struct FusionStep {
  int32_t group = -1;          // a kernel
  uint32_t node = UINT32_MAX;  // or a call: library, external
};

struct Fusion {
  ValueTable values;
  std::vector<FusionGroup> groups;
  std::vector<FusionStep> steps;  // in an order that runs
  std::shared_ptr<const Epilogues> epilogues;
};

Fusion fuse(const ir::Graph& graph, const FusionOptions& options);

// A call reads operand `v` in place: a window on a stored value's memory. The strides follow v's shape.
struct StridedOperand {
  ir::Value base;
  ir::StridedWindow window;
};
// Nothing when some view on the way has no strides; then `obstacle` is what must be stored first, or, if it is stored,
// must be row-major.
std::optional<StridedOperand> strided_operand(const ir::Graph& graph, const ValueTable& values, ir::Value v,
                                              ir::Value& obstacle);

}  // namespace lazuli::lowering
