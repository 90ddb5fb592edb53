#include "ir/passes/simplify.h"
#include <array>
#include "ir/passes/pass.h"

namespace lazuli::ir::passes {
namespace {

const std::array<std::vector<Rule>, kOpCount>& rules_by_op() {
  static const auto rules = [] {
    std::array<std::vector<Rule>, kOpCount> by_op;
    for (auto list : {algebra_rules(), view_rules()})
      for (const RuleEntry& e : list) by_op[static_cast<size_t>(e.op)].push_back(e.rule);
    for (size_t i = 0; i < kOpCount; ++i)
      if (is_elementwise(static_cast<Op>(i))) by_op[i].push_back(drop_broadcasts);
    return by_op;
  }();
  return rules;
}

}  // namespace

Graph simplify(const Graph& graph) {
  return rewrite(graph, [](Rewriter& r, uint32_t id) {
    const Node& n = r.from().nodes[id];
    const auto& rules = rules_by_op()[static_cast<size_t>(n.op)];
    if (rules.empty()) return Value{};
    Candidate c{r, n, r.operands(n)};
    for (Rule rule : rules)
      if (Value v = rule(c)) return v;
    return Value{};
  });
}

}  // namespace lazuli::ir::passes
