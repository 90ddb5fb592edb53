#include "lowering/generic_plan.h"

namespace lazuli::lowering {
namespace {

class Numbers {
 public:
  explicit Numbers(std::span<const int64_t> values) : values_(values) {}

  void put(ir::Size& n) const {
    if (n.is_symbolic()) n = values_[n.expression()];
  }
  void put(ir::Dims& dims) const {
    for (ir::Size& n : dims) put(n);
  }
  void put(ir::Node& node) const {
    node.attrs.replace([&](ir::Size& n) { put(n); });
    for (ir::Type& t : node.types) put(t.shape);
  }
  void put(BlockView& v) const {
    put(v.byte_offset);
    put(v.type.shape);
    put(v.strides);
  }
  void put(PlanStep& step) const {
    put(step.loops.sizes);
    put(step.loops.block);
    for (BoundAccess& a : step.loops.accesses) {
      put(a.offset);
      put(a.strides);
      put(a.index_stride);
    }
    for (BoundParam& p : step.loops.params) put(p.bits);
    for (ir::Size* n : {&step.chunks, &step.chunk_total, &step.kept_points, &step.external_call}) put(*n);
    for (PostOp& op : step.post_ops) {
      put(op.operand.shape);
      put(op.operand.strides);
    }
    for (BlockView& v : step.operands) put(v);
    for (BlockView& v : step.results) put(v);
  }

 private:
  std::span<const int64_t> values_;
};

}  // namespace

ir::Graph with_numbers(const ir::Graph& graph, std::span<const int64_t> values) {
  ir::Graph out = graph;
  for (ir::Node& node : out.nodes) Numbers(values).put(node);
  return out;
}

Plan with_numbers(const Plan& draft, std::span<const int64_t> values) {
  Plan out = draft;
  for (Block& block : out.blocks) Numbers(values).put(block.bytes);
  for (PlanStep& step : out.steps) Numbers(values).put(step);
  return out;
}

}  // namespace lazuli::lowering
