// How passes rebuild a graph: node by node in order, through a hash-consing builder, each node either copied or
// replaced by other values. Lines follow the node that is being rebuilt.
#pragma once
#include "ir/builder.h"

namespace lazuli::ir {

class Rewriter {
 public:
  explicit Rewriter(const Graph& from);

  const Graph& from() const { return from_; }
  GraphBuilder& builder() { return builder_; }
  Graph& to() { return to_; }
  // What an old value became.
  Value operator[](Value old) const { return old ? map_[old.node][old.result] : old; }
  // The operands of the old node, mapped; valid until the next call.
  std::span<const Value> operands(const Node& n);

  void begin(uint32_t id) { builder_.set_line(from_.nodes[id].line); }
  void copy(uint32_t id);
  void replace(uint32_t id, std::span<const Value> results) { map_[id].assign(results); }
  void replace(uint32_t id, Value result) { replace(id, {&result, 1}); }
  Graph finish();

 private:
  // Few nodes have several results.
  struct Results {
    Value first;
    std::vector<Value> more;
    void assign(std::span<const Value> v) {
      first = v[0];
      more.assign(v.begin() + 1, v.end());
    }
    Value operator[](uint32_t r) const { return r == 0 ? first : more[r - 1]; }
  };
  const Graph& from_;
  Graph to_;
  GraphBuilder builder_;
  std::vector<Results> map_;
  std::vector<Value> operands_;
};

// Rebuilds `graph`: visit(rewriter, id) gives the value that replaces a single-result node, or none to copy it.
template <class Visit>
Graph rewrite(const Graph& graph, Visit visit) {
  Rewriter r(graph);
  for (uint32_t id = 0; id < graph.nodes.size(); ++id) {
    r.begin(id);
    if (Value v = visit(r, id))
      r.replace(id, v);
    else
      r.copy(id);
  }
  return r.finish();
}

// Whether it pads by a negative amount.
bool crops(const Node& node);
// How often each node's results are used, outputs included.
std::vector<uint32_t> count_uses(const Graph& graph);
// The constant that this is, or is the broadcast of.
const Node* constant_node(const Graph& graph, Value v);
// The number a 0-dim constant (or its broadcast) holds, if it is known.
bool constant_value(const Graph& graph, Value v, double& out);

}  // namespace lazuli::ir
