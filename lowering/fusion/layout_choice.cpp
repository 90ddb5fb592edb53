#include "lowering/fusion/layout_choice.h"
#include <algorithm>
#include <utility>
#include "lowering/fusion/epilogue.h"
#include "lowering/fusion/storage_choice.h"
#include "lowering/index/index_rules.h"
#include "lowering/index/linear_form.h"
#include "lowering/index/memory_layout.h"

namespace lazuli::lowering {

using ir::Value;

namespace {

class LayoutChoice {
 public:
  LayoutChoice(const ir::Graph& graph, ValueTable& values, const Epilogues& epilogues, const Libraries& libraries)
      : graph_(graph), values_(values), epilogues_(epilogues), libraries_(libraries), fixed_(values.count()) {}

  void run() {
    if (std::none_of(graph_.nodes.begin(), graph_.nodes.end(), [&](const ir::Node& n) { return prefers(n); })) return;
    find_fixed();
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n)
      if (prefers(graph_.nodes[n])) start_from(n);
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) follow(n);
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) check_operands(n);
  }

 private:
  ChannelsLast preference(const ir::Node& n) const {
    return is_call(n.op) ? libraries_.channels_last(n) : ChannelsLast::Never;
  }
  bool prefers(const ir::Node& n) const { return preference(n) >= ChannelsLast::Images; }

  // Memory that is seen from outside, or under several shapes.
  void find_fixed() {
    auto fix = [&](Value v) { fixed_[values_[values_.home(v)]] = true; };
    for (Value v : graph_.outputs) fix(v);
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      const ir::Node& node = graph_.nodes[n];
      for (uint32_t r = 0; r < node.types.size(); ++r)
        if (values_.shares({n, r})) fix({n, r});
      if (const Epilogue* e = epilogues_.of(n); e && !writes_either_way(n, *e)) fix(e->result);
      if (ir::info(node.op).kind != ir::Kind::External) continue;
      for (Value x : ir::memory_operands(node))
        if (auto operand = read_by_call(x)) fix(operand->base);
    }
  }

  std::optional<StridedOperand> read_by_call(Value x) const {
    Value obstacle;
    return x ? strided_operand(graph_, values_, x, obstacle) : std::nullopt;
  }

  // Kernels write its pieces, each to where it lies.
  static bool is_put_together(const ir::Node& node) {
    const IndexRule* rule = index_rule(node.op);
    return rule && rule->place && node.op != ir::Op::as_strided_scatter;  // whose window is on row-major memory
  }

  // An image made by a kernel or by a call that can write it either way.
  bool is_free(Value v) const {
    if (!values_.stored(v) || fixed_[values_[v]]) return false;
    if (!is_image(graph_.type(v))) return false;
    return ir::is_elementwise(graph_[v].op) || is_put_together(graph_[v]) ||
           preference(graph_[v]) != ChannelsLast::Never;
  }
  void take(Value v) {
    if (is_free(v)) values_.set_channels_last(v, true);
  }

  // A chain may end under another shape than the call's, or turned.
  bool writes_either_way(uint32_t n, const Epilogue& e) const {
    const ir::Node& node = graph_.nodes[n];
    return e.strides.empty() && preference(node) != ChannelsLast::Never &&
           graph_.type(e.result).shape == node.types[0].shape;
  }

  // The values in whose memory a call leaves its results.
  template <class F>
  void for_results(uint32_t n, F f) const {
    if (const Epilogue* e = epilogues_.of(n)) return f(e->result);
    for (uint32_t r = 0; r < graph_.nodes[n].types.size(); ++r) f(Value{n, r});
  }

  // The weights are operand 1, or what the call makes.
  void start_from(uint32_t n) {
    const ir::Node& node = graph_.nodes[n];
    const bool weights = preference(node) == ChannelsLast::ImagesAndWeights;
    const bool makes_weights = node.op == ir::Op::convolution_weight_grad;
    if (weights || !makes_weights) for_results(n, [&](Value v) { take(v); });
    for (size_t i = 0; i < 2; ++i) {
      const Value x = node.inputs[i];
      if (i == 1 && !makes_weights && !weights) continue;
      if (auto operand = read_by_call(x); operand && operand->window.strides == whole(x)) take(operand->base);
    }
  }
  ir::Dims whole(Value x) const { return ir::contiguous_strides(graph_.type(x).shape); }

  // What is computed from a channels-last value of its own shape is one too.
  void follow(uint32_t n) {
    const ir::Node& node = graph_.nodes[n];
    if (preference(node) == ChannelsLast::Either) {
      const auto operand = read_by_call(node.inputs[0]);
      if (operand && values_.channels_last(operand->base)) for_results(n, [&](Value v) { take(v); });
    } else if ((ir::is_elementwise(node.op) || is_put_together(node)) && is_free({n, 0}) &&
               made_of_channels_last({n, 0})) {
      take({n, 0});
    }
  }
  bool made_of_channels_last(Value v) const {
    const ir::Node& node = graph_[v];
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](Value x) {
      if (graph_.type(x).shape != graph_.type(v).shape && !is_put_together(node)) return false;
      if (!values_.stored(x) && ir::is_elementwise(graph_[x].op)) return made_of_channels_last(x);
      return lies_channels_last(x);
    });
  }
  // In its own memory, or as a view of what an earlier trace left so.
  bool lies_channels_last(Value x) const {
    if (values_.stored(x)) return values_.channels_last(x);
    if (!ir::is_view(graph_[x].op)) return false;
    Value obstacle;
    const auto operand = strided_operand(graph_, values_, x, obstacle);
    return operand && operand->window.strides == ir::channels_last_strides(graph_.type(x).shape);
  }

  // Every operand of a call is a strided window on memory, and one that the call reads.
  void check_operands(uint32_t n) {
    const ir::Node& node = graph_.nodes[n];
    if (!is_call(node.op)) return;
    for (Value x : node.inputs) {
      if (!x) continue;
      const ir::Type& type = graph_.type(x);
      Value obstacle;
      const auto operand = strided_operand(graph_, values_, x, obstacle);
      if (!operand)
        values_.set_channels_last(obstacle, false);
      else if (values_.channels_last(operand->base) &&
               !libraries_.reads(node, {type.dtype, type.shape, operand->window.strides}))
        values_.set_channels_last(operand->base, false);
    }
    if (const Epilogue* e = epilogues_.of(n))
      for (const StridedOperand& x : e->operands)
        if (!in_memory(graph_, values_, x.base, node.types[0].shape, x.window))
          values_.set_channels_last(values_.home(x.base), false);
  }

  const ir::Graph& graph_;
  ValueTable& values_;
  const Epilogues& epilogues_;
  const Libraries& libraries_;
  std::vector<uint8_t> fixed_;  // by number of the home value
};

// [N, H, W, C] of [N, C, H, W].
bool lists_channels_last(const ir::Node& node) {
  const ir::Dims order{0, 2, 3, 1};
  return node.op == ir::Op::permute && std::ranges::equal(node.attrs.list(0), order);
}

}  // namespace

bool is_image(const ir::Type& t) {
  return t.shape.size() == 4 && t.shape[1] > 1 && t.shape[2] * t.shape[3] > 1 && t.numel() > 0;
}

void share_with_outputs(const ir::Graph& graph, ValueTable& values) {
  if (std::ranges::none_of(graph.outputs, [&](Value v) { return lists_channels_last(graph[v]); })) return;
  std::vector<uint8_t> is_read(graph.nodes.size()), is_taken(values.count());
  for (const ir::Node& node : graph.nodes)
    for (Value x : node.inputs)
      if (x) is_read[x.node] = true;
  const auto may_share = [&](Value v) {
    return lists_channels_last(graph[v]) && !is_read[v.node] && !shares_bytes(graph, v);
  };
  for (Value v : graph.outputs) {
    if (may_share(v)) values.share_no_longer(v);
    is_taken[values[values.home(v)]] = true;
  }
  for (Value v : graph.outputs) {
    if (!may_share(v)) continue;
    const Value base = graph[v].inputs[0];
    const bool has_own = values.stored(base) && !values.shares(base) && graph[base].op != ir::Op::input;
    if (!has_own || !values.channels_last(base) || std::exchange(is_taken[values[base]], true)) continue;
    values.share_as_it_lies(v, base);
  }
}

void choose_layouts(const ir::Graph& graph, ValueTable& values, const Epilogues& epilogues,
                    const Libraries& libraries) {
  LayoutChoice(graph, values, epilogues, libraries).run();
}

}  // namespace lazuli::lowering
