// Graphs and drafts of plans whose sizes have expressions (ir/size_table.h), with numbers put in.
#pragma once
#include <span>
#include <utility>
#include <vector>
#include "ir/size_table.h"
#include "lowering/plan.h"

namespace lazuli::lowering {

// A graph with the draft of its plan.
struct DraftedGraph {
  ir::Graph graph;
  Plan plan;
};

// A copy of it with numbers in place of expressions, which may be replaced by others.
class NumberedGraph {
 public:
  // `values`: by expression of the table that the draft was made with.
  NumberedGraph(const DraftedGraph& draft, std::span<const int64_t> values);
  NumberedGraph(const NumberedGraph&) = delete;
  // Puts other numbers in. The plan is a draft again: it has no call that depends on numbers, and no places.
  void put(std::span<const int64_t> values);
  // The same for what no run reads, which only then is right: to print.
  void put_rest();

  ir::Graph graph;
  Plan plan;

 private:
  struct Slot {
    ir::Size* number;
    uint32_t expression;
  };
  const DraftedGraph& draft_;
  std::vector<int64_t> values_;
  std::vector<Slot> slots_, rest_;  // but blocks', of which finishing a plan appends some
  std::vector<uint32_t> calls_;  // library steps that depend on numbers
};

}  // namespace lazuli::lowering
