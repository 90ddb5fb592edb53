#include "lazy/run/unplanned_schedule.h"

#include <algorithm>
#include <cmath>
#include "lazy/rows/torch_operators.h"

namespace lazuli::lazy {

using ir::Op;

namespace {

// Whether a row over operands and results of these types is worth a second thread. Some of torch's kernels, and
// products above all, share out what takes microseconds: waking OpenMP's threads costs more, and then they are awake
// where ours have to run.
bool is_worth_sharing(Op op, std::span<const ir::Type* const> types) {
  constexpr double kProducts = 2e6, kElements = 32768, kCostlyElements = 8192;
  double most = 0, all = 1;
  for (const ir::Type* t : types) {
    const auto count = static_cast<double>(t->numel());
    most = std::max(most, count), all *= count;
  }
  // Of m x k by k x n and m x n elements, m x k x n products.
  if (ir::is_contraction(op)) return std::sqrt(all) >= kProducts;
  const ir::Kind kind = ir::info(op).kind;
  return most >= (kind == ir::Kind::Elementwise || kind == ir::Kind::Index ? kElements : kCostlyElements);
}

std::vector<const ir::Type*> types_of(const ir::Graph& graph, const ir::Node& n) {
  std::vector<const ir::Type*> types;
  for (const ir::Type& t : n.types) types.push_back(&t);
  for (ir::Value v : n.inputs)
    if (v) types.push_back(&graph.type(v));
  return types;
}

// Whatever its operands hold. What steps of optimizers are made of.
bool cannot_fail(const ir::Graph& graph, const ir::Node& n) {
  if (ir::is_leaf(n.op) || ir::is_view(n.op) || n.op == Op::adam_step) return true;
  if (!ir::is_elementwise(n.op) || !ir::is_floating(n.types[0].dtype)) return false;
  const auto is_alike = [&](ir::Value v) { return v && graph.type(v).dtype == n.types[0].dtype; };
  if (n.op == Op::add_scaled) return std::ranges::all_of(n.inputs, is_alike) && graph.type(n.inputs[2]).rank() == 0;
  return std::ranges::all_of(n.inputs, is_alike) &&
         (n.op == Op::multiply_add || has_operator_of(n.op, n.inputs.size()));
}

bool turns(const ir::Node& n) { return n.op == Op::permute && n.attrs.list(0).size() == 2 && n.attrs.list(0)[0] == 1; }

// Whether it only gives what it reads another shape.
bool is_moved(const ir::Node& n) { return n.op == Op::reshape || n.op == Op::permute; }
// Whether torch has an operator that adds anything to it.
bool is_product(const ir::Node& n) { return n.op == Op::matmul && (n.types[0].rank() == 2 || n.types[0].rank() == 3); }
// Whether it is a convolution, and this a number for each of its channels.
bool adds_a_bias(const ir::Node& n, const ir::Type& added) {
  if (n.op != Op::convolution || added.rank() != n.types[0].rank()) return false;
  return added.shape[1] == n.types[0].shape[1] && added.numel() == added.shape[1];
}

}  // namespace

UnplannedSchedule::UnplannedSchedule(std::shared_ptr<const ir::Graph> g)
    : shared(std::move(g)),
      last_use(graph.nodes.size(), kNever),
      transposed(graph.nodes.size()),
      product(graph.nodes.size(), -1),
      factors_only(graph.nodes.size()),
      grows(graph.nodes.size()),
      rounded_once(graph.nodes.size(), kNever) {
  find_uses();
  find_products();
  find_narrow_products();
}

void UnplannedSchedule::find_uses() {
  const auto end = static_cast<uint32_t>(graph.nodes.size());
  bool is_sure = true;
  for (uint32_t id = 0; id < end; ++id)
    transposed[id] = graph.nodes[id].op == Op::matmul && graph.nodes[id].types[0].shape.size() == 2;
  for (ir::Value v : graph.outputs) {
    last_use[v.node] = end;
    transposed[v.node] = false;
  }
  for (uint32_t id = end; id-- > 0;) {
    if (last_use[id] == kNever) continue;
    const ir::Node& n = graph.nodes[id];
    is_shared = is_shared || (!ir::is_leaf(n.op) && !ir::is_view(n.op) && is_worth_sharing(n.op, types_of(graph, n)));
    is_sure = is_sure && cannot_fail(graph, n);
    if (is_sure) sure_from = id;
    for (ir::Value v : n.inputs) {
      if (!v) continue;
      if (last_use[v.node] == kNever) last_use[v.node] = id;
      if (!turns(n)) transposed[v.node] = false;
    }
  }
}

std::vector<uint32_t> UnplannedSchedule::count_uses() const {
  std::vector<uint32_t> uses(graph.nodes.size());
  const auto count = [&](ir::Value v) {
    if (v) ++uses[v.node];
  };
  for (ir::Value v : graph.outputs) count(v);
  for (uint32_t id = 0; id < graph.nodes.size(); ++id)
    if (last_use[id] != kNever) std::ranges::for_each(graph.nodes[id].inputs, count);
  return uses;
}

void UnplannedSchedule::find_products() {
  const std::vector<uint32_t> uses = count_uses();
  for (uint32_t id = 0; id < graph.nodes.size(); ++id) {
    const ir::Node& n = graph.nodes[id];
    if (last_use[id] == kNever || n.op != Op::add || n.types[0].rank() != 2 || n.types[0].dtype != ir::DType::F32)
      continue;
    if (graph.type(n.inputs[0]) != n.types[0] || graph.type(n.inputs[1]) != n.types[0]) continue;
    for (int8_t i = 0; i < 2 && product[id] < 0; ++i) {
      const uint32_t view = n.inputs[i].node;
      const uint32_t made = turns(graph.nodes[view]) ? graph.nodes[view].inputs[0].node : view;
      if (graph.nodes[made].op != Op::matmul || uses[made] != 1 || uses[view] != 1 ||
          transposed[made] != (made != view))
        continue;
      product[id] = i;
      factors_only[view] = factors_only[made] = true;
      const ir::Value sum = n.inputs[1 - i];
      grows[id] =
          graph[sum].op == Op::input && uses[sum.node] == 1 && uses[id] == 1 && last_use[id] == graph.nodes.size();
    }
  }
}

void UnplannedSchedule::find_narrow_products() {
  const auto is_narrow = [&](const ir::Node& n) {
    const ir::DType t = n.types[0].dtype;
    return n.op == Op::add && ir::is_floating(t) && ir::compute_type(t) != t;
  };
  if (std::ranges::none_of(graph.nodes, is_narrow)) return;
  const std::vector<uint32_t> uses = count_uses();
  for (uint32_t id = 0; id < graph.nodes.size(); ++id) {
    const ir::Node& n = graph.nodes[id];
    if (last_use[id] == kNever || !is_narrow(n)) continue;
    for (size_t i = 0; i < 2 && rounded_once[id] == kNever; ++i) {
      const ir::Type &whole = graph.type(n.inputs[i]), &added = graph.type(n.inputs[1 - i]);
      if (whole != n.types[0] || added.dtype != whole.dtype) continue;
      uint32_t made = n.inputs[i].node;
      while (is_moved(graph.nodes[made]) && uses[made] == 1) made = graph.nodes[made].inputs[0].node;
      if (uses[made] != 1 || graph.nodes[made].types[0].dtype != whole.dtype) continue;
      const bool is_alone = made == n.inputs[i].node;
      if (!(is_product(graph.nodes[made]) || (is_alone && adds_a_bias(graph.nodes[made], added)))) continue;
      rounded_once[id] = made;
      transposed[made] = false;
      for (uint32_t view = n.inputs[i].node; view != made; view = graph.nodes[view].inputs[0].node)
        factors_only[view] = true;
      factors_only[made] = true;
    }
  }
}

}  // namespace lazuli::lazy
