// Graphs and drafts of plans whose sizes have expressions (ir/size_table.h), with numbers put in.
#pragma once
#include <span>
#include <vector>
#include "ir/size_table.h"
#include "lowering/plan/plan.h"

namespace lazuli::lowering {

// A graph with its plan.
struct PlannedGraph {
  ir::Graph graph;
  Plan plan;
};

// A copy of a draft with numbers in place of expressions, which may be replaced by others.
class NumberedGraph : public PlannedGraph {
 public:
  // `values`: by expression of the table that the draft was made with.
  NumberedGraph(const PlannedGraph& draft, std::span<const int64_t> values);
  NumberedGraph(const NumberedGraph&) = delete;
  // Puts other numbers in. The plan is a draft again: it has no call that depends on numbers, and no places.
  void put(std::span<const int64_t> values);

  struct Slot {
    ir::Size* number;
    uint32_t expression;
  };

 private:
  const PlannedGraph& draft_;
  std::vector<Slot> slots_;      // but blocks', of which finishing a plan appends some
  std::vector<uint32_t> calls_;  // library steps that depend on numbers
};

}  // namespace lazuli::lowering
