#include "lowering/generic_plan.h"

namespace lazuli::lowering {
namespace {

// Lists the sizes of something in a fixed order.
class Sizes {
 public:
  std::vector<ir::Size*> found;

  void add(ir::Size& n) { found.push_back(&n); }
  void add(ir::Dims& dims) {
    for (ir::Size& n : dims) add(n);
  }
  void add(ir::Type& t) { add(t.shape); }
  void add(ir::Node& node) {
    node.attrs.replace([&](ir::Size& n) { add(n); });
    for (ir::Type& t : node.types) add(t);
  }
  void add(BlockView& v) {
    add(v.byte_offset);
    add(v.type);
    add(v.strides);
  }
  void add(PlanStep& step) {
    add(step.loops.sizes);
    add(step.loops.block);
    for (BoundAccess& a : step.loops.accesses) {
      add(a.offset);
      add(a.strides);
      add(a.index_stride);
    }
    for (BoundParam& p : step.loops.params) add(p.bits);
    for (ir::Size* n : {&step.chunks, &step.chunk_total, &step.kept_points, &step.external_call}) add(*n);
    for (PostOp& op : step.post_ops) {
      add(op.operand.shape);
      add(op.operand.strides);
    }
    for (BlockView& v : step.operands) add(v);
    for (BlockView& v : step.results) add(v);
  }
};

}  // namespace

NumberedGraph::NumberedGraph(const DraftedGraph& draft, std::span<const int64_t> values)
    : graph(draft.graph), plan(draft.plan), draft_(draft) {
  // Notes what has been found since the last time, and says whether any of it may be other numbers.
  Sizes sizes;
  const auto note = [&](std::vector<Slot>& slots) {
    const size_t before = slots.size();
    for (ir::Size* n : sizes.found)
      if (n->is_symbolic()) slots.push_back({n, n->expression()});
    sizes.found.clear();
    return slots.size() > before;
  };
  // Besides the plan's own: the nodes that libraries and the host are given, and the constants that errors name.
  std::vector<bool> read(graph.nodes.size()), varies(graph.nodes.size());
  for (const PlanStep& step : plan.steps) read[step.node] = step.kind != PlanStep::Kernel;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    sizes.add(graph.nodes[n]);
    varies[n] = note(read[n] || graph.nodes[n].op == ir::Op::constant ? slots_ : rest_);
  }
  for (uint32_t s = 0; s < plan.steps.size(); ++s) {
    PlanStep& step = plan.steps[s];
    sizes.add(step);
    if ((note(slots_) || varies[step.node]) && step.kind == PlanStep::Library) calls_.push_back(s);
  }
  put(values);
  put_rest();
}

void NumberedGraph::put(std::span<const int64_t> values) {
  values_.assign(values.begin(), values.end());
  for (const Slot& slot : slots_) *slot.number = values[slot.expression];
  for (uint32_t s : calls_) {
    PlanStep& step = plan.steps[s];
    step.kind = PlanStep::Library;
    step.call = nullptr;
    step.packed = {};
  }
  for (PlanStep& step : plan.steps) step.scratch = kNoBlock;
  plan.blocks.assign(draft_.plan.blocks.begin(), draft_.plan.blocks.end());
  for (Block& block : plan.blocks)
    if (block.bytes.is_symbolic()) block.bytes = values[block.bytes.expression()];
}

void NumberedGraph::put_rest() {
  for (const Slot& slot : rest_) *slot.number = values_[slot.expression];
}

}  // namespace lazuli::lowering
