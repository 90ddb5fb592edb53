// The identities that `simplify` applies. Each rule sees a node with its operands already rewritten, and gives the
// value that stands for it, or none.
#pragma once
#include "ir/passes/rewrite.h"

namespace lazuli::ir {

struct Candidate {
  Rewriter& r;
  const Node& node;           // as it was
  std::span<const Value> in;  // operands as they are now
  GraphBuilder& b() const { return r.builder(); }
  const Node& producer(size_t i) const { return r.to()[in[i]]; }
  const Type& type(size_t i) const { return r.to().type(in[i]); }
  const Type& result() const { return node.types[0]; }
  bool is_constant(size_t i, double value) const {
    double c;
    return constant_value(r.to(), in[i], c) && c == value;
  }
};
using Rule = Value (*)(const Candidate& c);
struct RuleEntry {
  Op op;
  Rule rule;
};
std::span<const RuleEntry> algebra_rules();
std::span<const RuleEntry> view_rules();
// For every elementwise row: operands that are broadcast by a view although the row would do it.
Value drop_broadcasts(const Candidate& c);

}  // namespace lazuli::ir
