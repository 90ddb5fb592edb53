#include "lowering/plan/generic_plan.h"

namespace lazuli::lowering {
namespace {

// Notes where expressions stand.
class Finder {
 public:
  explicit Finder(std::vector<NumberedGraph::Slot>& slots) : slots_(slots) {}
  // Whether there was one in it.
  template <class T>
  bool find(T& in) {
    const size_t before = slots_.size();
    add(in);
    return slots_.size() > before;
  }

 private:
  void add(ir::Size& n) {
    if (n.is_symbolic()) slots_.push_back({&n, n.expression()});
  }
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

  std::vector<NumberedGraph::Slot>& slots_;
};

}  // namespace

NumberedGraph::NumberedGraph(const PlannedGraph& draft, std::span<const int64_t> values)
    : PlannedGraph(draft), draft_(draft) {
  Finder finder(slots_);
  std::vector<bool> varies(graph.nodes.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) varies[n] = finder.find(graph.nodes[n]);
  for (uint32_t s = 0; s < plan.steps.size(); ++s) {
    PlanStep& step = plan.steps[s];
    if ((finder.find(step) || varies[step.node]) && step.kind == PlanStep::Library) calls_.push_back(s);
  }
  put(values);
}

void NumberedGraph::put(std::span<const int64_t> values) {
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

}  // namespace lazuli::lowering
