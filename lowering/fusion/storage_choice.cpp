#include "lowering/fusion/storage_choice.h"
#include <algorithm>
#include "ir/error.h"
#include "lowering/fusion/epilogue.h"
#include "lowering/fusion/fusion.h"
#include "lowering/index/index_rules.h"
#include "lowering/index/memory_layout.h"
#include "lowering/nest/scalar_program.h"

namespace lazuli::lowering {

using ir::Kind;
using ir::Value;

namespace {

// A value wanted in several places is recomputed there when that costs no more than reading it back.
constexpr int kCheapOps = 8;
// A part of an expression with this many times fewer elements takes next to no memory, and costs nothing to read back.
constexpr int64_t kNarrow = 8;
// So many rows, and columns of each: a row that is read for every one of them is computed once, if that takes more than
// a step.
constexpr int64_t kManyRows = 256, kManyColumns = 64;
// Bounds on what one expression may grow to by inlining.
constexpr int kMaxLoads = 16, kMaxNodes = 64;

bool is_spread(const ir::Type& row, const ir::Type& over) {
  if (row.numel().is_symbolic() || over.numel().is_symbolic() || row.shape.empty() || over.shape.empty()) return false;
  return row.shape.back() == over.shape.back() && row.shape.back() >= kManyColumns &&
         kManyRows * row.numel() <= over.numel();
}

bool is_leaf_number(ir::Op op) { return op == ir::Op::constant || op == ir::Op::scalar || op == ir::Op::iota; }

}  // namespace

bool shares_bytes(const ir::Graph& g, Value v) {
  const ir::Node& node = g[v];
  const ir::Type &to = g.type(v), &from = g.type(node.inputs[0]);
  if (to.dtype != from.dtype) return true;
  if (to.numel() != from.numel()) return false;
  const ir::StridedWindow w = ir::info(node.op).window(from, node.attrs, to);
  ir::Size expected = 1;
  for (size_t d = to.shape.size(); d-- > 0; expected *= to.shape[d])
    if (!to.shape[d].is_surely_one() && w.strides[d] != expected) return false;
  return w.offset == 0;
}

bool is_call(ir::Op op) {
  switch (ir::info(op).kind) {
    case Kind::Contraction:
    case Kind::Window:
    case Kind::External:
      return true;
    case Kind::Index:
      return index_rule(op) == nullptr;
    case Kind::Composite:
      throw InternalError(std::string(ir::name(op)) + " reached fusion without decomposition");
    default:
      return false;
  }
}

std::optional<StridedOperand> strided_operand(const ir::Graph& graph, const ValueTable& values, Value v,
                                              Value& obstacle) {
  Space space{graph.type(v).shape, graph.type(v).shape.size()};
  Form at = kept_form(space);
  while (!values.stored(v) && ir::is_view(graph[v].op)) {
    const ir::Node& node = graph[v];
    const ir::Type& operand = graph.type(node.inputs[0]);
    if (operand.dtype != graph.type(v).dtype) break;
    auto inside =
        through_unsplit(at, space, graph.type(v).shape, ir::info(node.op).window(operand, node.attrs, graph.type(v)));
    if (!inside) {
      obstacle = v;
      return {};
    }
    at = *std::move(inside);
    v = node.inputs[0];
  }
  auto window = in_memory(graph, values, v, space.sizes, {at.coefs, at.offset});
  if (!window) {
    obstacle = v;
    return {};
  }
  return StridedOperand{v, std::move(*window)};
}

StorageChoice::StorageChoice(const ir::Graph& graph, ValueTable& values, const Epilogues& epilogues,
                             const Libraries& libraries, bool inline_nodes)
    : graph_(graph), values_(values), epilogues_(epilogues), libraries_(libraries) {
  count_uses();
  costs_.resize(values.count());
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const ir::Node& node = graph.nodes[n];
    if ((!live_[n] && node.op != ir::Op::input) || epilogues.absorbed(n)) continue;
    const IndexRule* rule = index_rule(node.op);
    if (is_call(node.op)) {
      require_operands(node);
      if (const Epilogue* e = epilogues.of(n)) {
        for (const StridedOperand& x : e->operands) require(x.base);
        values_.store(e->result);
        continue;
      }
      for (uint32_t r = 0; r < node.types.size(); ++r)
        if (!is_left_out({n, r})) values_.store({n, r});
    } else if (node.op == ir::Op::input || node.op == ir::Op::uninitialized || ir::is_reduction(node.op) ||
               (rule && rule->place)) {
      values_.store({n, 0});
    } else {
      choose({n, 0}, inline_nodes);
    }
  }
  for (Value v : graph.outputs) require(v);
  // A value that was stored after a call had chosen its operands may lie between such an operand and its base, in
  // another way.
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
      const ir::Node& node = graph.nodes[n];
      if (!live_[n] || epilogues.absorbed(n) || !is_call(node.op)) continue;
      for (Value x : node.inputs)
        if (x && !values_.stored(x) && !reads_in_place(node, x)) require(x), changed = true;
    }
  }
}

bool StorageChoice::is_left_out(Value v) const {
  return uses_[values_[v]] == 0 && std::ranges::find(graph_.outputs, v) == graph_.outputs.end() &&
         libraries_.may_leave_out(graph_[v], v.result);
}

bool StorageChoice::reads_in_place(const ir::Node& reader, Value v) const {
  Value obstacle;
  const auto operand = strided_operand(graph_, values_, v, obstacle);
  return operand && values_.stored(operand->base) && reads_in_place(reader, v, operand->window.strides);
}

// A flipped operand has strides below zero: neither libraries nor torch walk memory backwards.
bool StorageChoice::reads_in_place(const ir::Node& reader, Value v, const ir::Dims& strides) const {
  const bool backwards = std::ranges::any_of(strides, [](ir::Size s) { return s < 0; });
  const ir::Type& type = graph_.type(v);
  return !backwards && libraries_.reads(reader, {type.dtype, type.shape, strides});
}

void StorageChoice::count_uses() {
  live_.resize(graph_.nodes.size());
  uses_.resize(values_.count());
  widened_.resize(values_.count());
  spread_.resize(values_.count());
  for (Value v : graph_.outputs) live_[v.node] = true;
  for (uint32_t n = static_cast<uint32_t>(graph_.nodes.size()); n-- > 0;) {
    const ir::Node& node = graph_.nodes[n];
    if (!live_[n]) continue;
    const bool view = ir::is_view(node.op);
    const uint32_t self = values_[{n, 0}];
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Value x = node.inputs[i];
      if (!x) continue;
      live_[x.node] = true;
      const bool again = std::find(node.inputs.begin(), node.inputs.begin() + i, x) != node.inputs.begin() + i;
      if (!again) uses_[values_[x]] += view ? std::max<uint16_t>(1, uses_[self]) : 1;
      spread_[values_[x]] |= is_spread(graph_.type(x), node.types[0]) || (view && spread_[self]);
      widened_[values_[x]] |= node.types[0].numel() > graph_.type(x).numel() || (view && widened_[self]);
    }
  }
}

void StorageChoice::require(Value v) {
  if (values_.stored(v)) return;
  // A number under another shape gets memory of its own: kernels do not read that of numbers, but for its bytes.
  const auto is_seen = [&](Value x) {
    return !is_leaf_number(graph_[x].op) || graph_.type(x).dtype != graph_.type(v).dtype;
  };
  const bool view = ir::is_view(graph_[v].op) && is_seen(graph_[v].inputs[0]);
  if (view && shares_bytes(graph_, v)) {
    const Value operand = graph_[v].inputs[0];
    require(operand);
    values_.share(v, operand);
  }
  values_.store(v);
}

void StorageChoice::require_operands(const ir::Node& node) {
  for (Value x : ir::memory_operands(node))
    if (x) require_strided(node, x);
}

// Whether v, a view of an elementwise value, is all that anybody reads of it. For torch's kernels it had better lie as
// v shows it then, which is how it lies in eager: the layout of their results follows that of their operands.
bool StorageChoice::is_seen_only_as(Value v, Value base) const {
  return base != v && graph_.type(v).numel() == graph_.type(base).numel() && ir::is_elementwise(graph_[base].op) &&
         !epilogues_.absorbed(base.node) && uses_[values_[v]] == uses_[values_[base]] &&
         std::find(graph_.outputs.begin(), graph_.outputs.end(), base) == graph_.outputs.end();
}

void StorageChoice::require_strided(const ir::Node& reader, Value v) {
  for (;;) {
    Value obstacle;
    if (auto operand = strided_operand(graph_, values_, v, obstacle)) {
      const bool in_place = reads_in_place(reader, v, operand->window.strides);
      if (in_place && ir::info(reader.op).kind == ir::Kind::External && is_seen_only_as(v, operand->base))
        values_.inline_again(operand->base), require(v);
      else
        require(in_place ? operand->base : v);
      return;
    }
    require(obstacle);
  }
}

StorageChoice::Cost StorageChoice::cost(Value v) const {
  const ir::Node& node = graph_[v];
  Cost c;
  if (ir::is_elementwise(node.op)) {
    std::vector<ir::DType> types;
    for (Value x : node.inputs) types.push_back(graph_.type(x).dtype);
    c.ops = scalar_program(node.op, types, graph_.type(v).dtype).cost;
  }
  c.nodes = 1;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Value x = node.inputs[i];
    if (std::find(node.inputs.begin(), node.inputs.begin() + i, x) != node.inputs.begin() + i) continue;
    if (is_leaf_number(graph_[x].op)) continue;
    if (values_.stored(x)) {
      ++c.loads;
      c.wide_loads += graph_.type(x).numel() >= graph_.type(v).numel();
    } else {
      const Cost& o = costs_[values_[x]];
      const bool narrow = graph_.type(x).numel() < graph_.type(v).numel();
      c.ops += o.ops;
      c.loads += o.loads;
      c.wide_loads += narrow ? 0 : o.wide_loads;
      c.nodes += o.nodes;
    }
  }
  return c;
}

bool StorageChoice::store_narrow_parts(Value v, Value part) {
  bool any = false;
  for (const Value x : graph_[part].inputs) {
    if (!x || values_.stored(x) || is_leaf_number(graph_[x].op)) continue;
    const bool narrow = graph_.type(x).numel() * kNarrow <= graph_.type(v).numel();
    if (!narrow || ir::is_view(graph_[x].op)) {
      any |= store_narrow_parts(v, x);
    } else if (costs_[values_[x]].ops > 1) {
      values_.store(x);
      any = true;
    }
  }
  return any;
}

void StorageChoice::refresh_cost(Value v) {
  for (const Value x : graph_[v].inputs)
    if (x && !values_.stored(x) && !is_leaf_number(graph_[x].op)) refresh_cost(x);
  costs_[values_[v]] = cost(v);
}

void StorageChoice::choose(Value v, bool inline_nodes) {
  const ir::Op op = graph_[v].op;
  if (is_leaf_number(op)) return;
  if (ir::is_view(op)) {
    if (graph_.type(v).dtype != graph_.type(graph_[v].inputs[0]).dtype) return require(v);  // read through memory
    costs_[values_[v]] = cost(v);
    return;
  }
  Cost c = cost(v);
  const bool shared = uses_[values_[v]] > 1;
  // Often it is costly only in what is the same along whole rows of it, as the scale of a normalization is: with that
  // in memory it is recomputed where it is wanted, and backward keeps nothing as large as it.
  if (inline_nodes && shared && c.ops > kCheapOps && c.wide_loads <= 1 && store_narrow_parts(v, v)) {
    refresh_cost(v);
    c = costs_[values_[v]];
  }
  const bool again = shared && (c.ops > kCheapOps || c.wide_loads > 1);
  const bool repeated = (widened_[values_[v]] && c.ops > kCheapOps) || (spread_[values_[v]] && c.ops + c.loads > 2);
  if (!inline_nodes || again || repeated || c.loads > kMaxLoads || c.nodes > kMaxNodes) values_.store(v);
  costs_[values_[v]] = c;
}

}  // namespace lazuli::lowering
