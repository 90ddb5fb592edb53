// Composites become primitive rows, until none is left: a decomposition may use composites itself.
#include "ir/error.h"
#include "ir/passes/pass.h"
#include "ir/passes/rewrite.h"

namespace lazuli::ir {
namespace {

// Emits into `inner`, expanding composites on the way.
class Expander final : public Builder {
 public:
  explicit Expander(Builder& inner) : inner_(inner) {}
  using Builder::emit;
  Value emit(Op op, std::span<const Value> inputs, Attrs attrs, std::span<const Type> types) override {
    if (!is_composite(op)) return inner_.emit(op, inputs, std::move(attrs), types);
    // Results would have to share a node; rows that decompositions use have one.
    LAZULI_CHECK(info(op).results == 1, "a decomposition uses a composite with several results");
    Value result;
    decompose(*this, {op, inputs, {}, attrs}, {&result, 1});
    return result;
  }
  const Type& type(Value v) const override { return inner_.type(v); }

 private:
  Builder& inner_;
};

}  // namespace

namespace passes {

Graph decompose(const Graph& graph) { return decompose_but(graph, nullptr); }

}  // namespace passes

Graph decompose_but(const Graph& graph, bool (*stays)(const Node& composite)) {
  Rewriter r(graph);
  Expander b(r.builder());
  std::vector<Value> results;
  for (uint32_t id = 0; id < graph.nodes.size(); ++id) {
    const Node& n = graph.nodes[id];
    r.begin(id);
    if (!is_composite(n.op) || (stays && stays(n))) {
      r.copy(id);
      continue;
    }
    std::vector<Value> inputs(r.operands(n).begin(), r.operands(n).end());
    results.assign(n.types.size(), Value{});
    ir::decompose(b, {n.op, inputs, {}, n.attrs}, results);
    r.replace(id, results);
  }
  return r.finish();
}

}  // namespace lazuli::ir
