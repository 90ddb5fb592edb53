// Which op of a graph is to blame for a wrong value, when somebody can tell of a part of the graph whether it is
// computed wrong: from right values on, so that what is wrong in a part is the part's own fault.
//
// Values inside a compiled graph are fused away, so nobody can look at them. But a part that ends with one of them
// computes it too. Bisection over the order of the nodes finds the first node whose value is wrong, and then how much
// of what comes before it must be computed together with it for that: nothing (the op alone is computed wrong: its
// formula, decomposition, shape rule, schedule, code), or a few ops more (what a pass or fusion makes of them is
// wrong).
#pragma once
#include <functional>
#include <optional>
#include "ir/portion.h"

namespace lazuli::ir {

struct Blame {
  uint32_t node = 0;  // whose value is wrong though its operands are right
  Portion part;       // the least that shows it: ends with that node
};
// None: `wrong` is computed right when only what it depends on is computed. `is_wrong` computes a part from the right
// values of its inputs; it is asked about twice the logarithm of the graph's size.
std::optional<Blame> find_blame(const Graph& graph, Value wrong, const std::function<bool(const Portion&)>& is_wrong);

}  // namespace lazuli::ir
