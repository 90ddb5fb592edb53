#include "lowering/fusion/epilogue.h"
#include <algorithm>
#include <cmath>
#include <numeric>
#include "ir/passes/rewrite.h"
#include "lowering/fusion/storage_choice.h"
#include "lowering/libraries/post_ops.h"

namespace lazuli::lowering {
namespace {

using ir::Op;
using ir::Value;

struct Entry {
  Op op;
  PostOp::Kind kind;
};
const Entry kPostOps[] = {
    {Op::add, PostOp::Add},         {Op::mul, PostOp::Mul},
    {Op::relu, PostOp::Relu},       {Op::leaky_relu, PostOp::LeakyRelu},
    {Op::hardtanh, PostOp::Clamp},  {Op::clamp, PostOp::Clamp},
    {Op::gelu, PostOp::GeluErf},    {Op::gelu_tanh, PostOp::GeluTanh},
    {Op::sigmoid, PostOp::Sigmoid}, {Op::tanh, PostOp::Tanh},
    {Op::silu, PostOp::Silu},       {Op::hardswish, PostOp::HardSwish},
};
const Entry* post_op(Op op) {
  for (const Entry& e : kPostOps)
    if (e.op == op) return &e;
  return nullptr;
}

constexpr size_t kMaxOps = 5;

// Where a chain has come: a value that has the contraction's elements, perhaps under another shape.
struct Place {
  Value value;
  Form at;         // the row-major number in it of the contraction's element
  ir::Dims order;  // of the contraction's dimensions in it; empty: its shape has others
};

class Finder {
 public:
  Finder(const ir::Graph& graph, const Libraries& libraries)
      : graph_(graph),
        libraries_(libraries),
        values_(graph),
        uses_(values_.count()),
        reader_(values_.count()),
        is_result_(values_.count()) {
    for (uint32_t n = 0; n < graph.nodes.size(); ++n)
      for (Value x : graph.nodes[n].inputs)
        if (x) {
          ++uses_[values_[x]];
          reader_[values_[x]] = n;
        }
    for (Value v : graph.outputs) uses_[values_[v]] += 2;  // never absorbed past an output
  }

  std::unique_ptr<Epilogue> find(uint32_t contraction) {
    auto e = std::make_unique<Epilogue>();
    e->result = {contraction, 0};
    const ir::Type& made = graph_.type(e->result);
    if (!ir::is_floating(made.dtype)) return nullptr;
    Place at{e->result, kept_form(Space{made.shape, made.shape.size()}), ir::Dims(made.shape.size(), 0)};
    std::iota(at.order.begin(), at.order.end(), 0);
    std::vector<uint32_t> views;  // passed since the last op that was taken
    while (e->ops.size() < kMaxOps && uses_[values_[at.value]] == 1) {
      const uint32_t n = reader_[values_[at.value]];
      const Value next{n, 0};
      if (graph_.type(next).dtype != made.dtype || graph_.type(next).numel() != made.numel()) break;
      if (ir::is_view(graph_.nodes[n].op)) {
        if (!pass(contraction, n, at)) break;
        views.push_back(n);
      } else if (take(*e, contraction, n, at)) {
        e->nodes.insert(e->nodes.end(), views.begin(), views.end());
        views.clear();
        e->nodes.push_back(n);
        e->result = next;
        e->strides = is_turned(at) ? at.at.coefs : ir::Dims();
      } else {
        break;
      }
      at.value = next;
    }
    if (e->ops.empty()) return nullptr;
    is_result_[values_[e->result]] = true;
    return e;
  }

 private:
  static bool is_turned(const Place& at) { return !at.order.empty() && !std::ranges::is_sorted(at.order); }

  // Goes past the view `n`. Of an image that a call writes channels-last as well as row-major, it may be one that turns
  // the one into the other.
  bool pass(uint32_t contraction, uint32_t n, Place& at) const {
    const ir::Node& node = graph_.nodes[n];
    const ir::Dims& shape = node.types[0].shape;
    if (shares_bytes(graph_, {n, 0})) {
      if (is_turned(at)) return false;
      if (shape != graph_.type(at.value).shape) at.order.clear();
      return true;
    }
    const ir::Node& call = graph_.nodes[contraction];
    if (node.op != Op::permute || at.order.empty() || libraries_.channels_last(call) == ChannelsLast::Never)
      return false;
    ir::Dims order;
    const ir::Dims strides = ir::contiguous_strides(shape);
    for (size_t d = 0; d < shape.size(); ++d) {
      order.push_back(at.order[static_cast<size_t>(node.attrs.list(0)[d])]);
      at.at.coefs[static_cast<size_t>(order[d])] = strides[d];
    }
    at.order = order;
    return !is_turned(at) || order == ir::Dims{0, 2, 3, 1};
  }

  bool take(Epilogue& e, uint32_t contraction, uint32_t n, const Place& at) {
    const ir::Node& node = graph_.nodes[n];
    if (graph_.type({n, 0}).shape != graph_.type(at.value).shape) return false;
    if (node.op == Op::multiply_add && node.inputs[0] == at.value) {
      if (!take_binary(e, contraction, PostOp::Mul, node.inputs[1], at)) return false;
      if (take_binary(e, contraction, PostOp::Add, node.inputs[2], at)) return true;
      e.ops.pop_back();
      e.operands.pop_back();
      return false;
    }
    const Entry* entry = post_op(node.op);
    if (!entry) return false;
    if (node.inputs.size() == 1) return append(e, contraction, PostOp{entry->kind}, {});
    if (!has_operand(PostOp{entry->kind})) return take_with_numbers(e, contraction, entry->kind, node, at.value);
    const Value other = node.inputs[node.inputs[0] == at.value ? 1 : 0];
    if (double factor; entry->kind == PostOp::Mul && ir::constant_value(graph_, other, factor))
      return append(e, contraction, PostOp{PostOp::Scale, {}, factor}, {});
    return take_binary(e, contraction, entry->kind, other, at);
  }

  // An op whose other operands are numbers that are part of the code.
  bool take_with_numbers(Epilogue& e, uint32_t contraction, PostOp::Kind kind, const ir::Node& node, Value from) {
    PostOp op{kind};
    double* numbers[] = {&op.alpha, &op.beta};
    if (node.inputs[0] != from) return false;
    for (size_t i = 1; i < node.inputs.size(); ++i)
      if (!ir::constant_value(graph_, node.inputs[i], *numbers[i - 1]) || std::isnan(*numbers[i - 1])) return false;
    if (kind == PostOp::Clamp && op.alpha > op.beta) return false;  // oneDNN refuses it
    return append(e, contraction, std::move(op), {});
  }

  bool take_binary(Epilogue& e, uint32_t contraction, PostOp::Kind kind, Value other, const Place& at) {
    if (other == at.value || graph_.type(other).dtype != graph_.type(at.value).dtype) return false;
    auto operand = window_of(contraction, other, at);
    if (!operand) return false;
    PostOp op{kind, {graph_.type(other).dtype, graph_.type({contraction, 0}).shape, operand->window.strides}};
    return append(e, contraction, std::move(op), std::move(operand));
  }

  bool append(Epilogue& e, uint32_t contraction, PostOp op, std::optional<StridedOperand> operand) {
    e.ops.push_back(std::move(op));
    if (!libraries_.takes(graph_.nodes[contraction], e.ops)) {
      e.ops.pop_back();
      return false;
    }
    if (operand) e.operands.push_back(std::move(*operand));
    return true;
  }

  // Worth a kernel and memory of its own: the result need not be read once more for it. A product of a reduced type is
  // rounded once less, too; such are the biases that autocast casts.
  bool worth_memory(Value other, const ir::Type& made) const {
    const ir::Size numel = graph_.type(other).numel();
    if (!ir::is_elementwise(graph_[other].op)) return false;
    if (!ir::is_reduced_floating(made.dtype)) return numel <= kSmallOperand && kTimesSmaller * numel <= made.numel();
    return numel <= kSmallOperand || 2 * numel <= made.numel();
  }

  // `other`, broadcast to the chain's shape, as a window in the contraction's own shape on a value that exists by then
  // and has memory anyway, or is worth it.
  std::optional<StridedOperand> window_of(uint32_t contraction, Value other, const Place& place) {
    const ir::Dims &own = graph_.type({contraction, 0}).shape, &shape = graph_.type(place.value).shape;
    Space space{own, own.size()};
    Form at = place.at;
    auto through = [&](ir::SizeSpan s, const ir::StridedWindow& w) {
      auto inside = through_unsplit(at, space, s, w);
      if (inside) at = *std::move(inside);
      return inside.has_value();
    };
    if (!through(shape, broadcast_window(graph_.type(other).shape, shape))) return {};
    while (ir::is_view(graph_[other].op)) {
      const ir::Node& node = graph_[other];
      const ir::Type &to = graph_.type(other), &from = graph_.type(node.inputs[0]);
      if (to.dtype != from.dtype || !through(to.shape, ir::info(node.op).window(from, node.attrs, to))) return {};
      other = node.inputs[0];
    }
    const Op op = graph_[other].op;
    const bool has_memory = op == Op::input || is_call(op) || ir::is_reduction(op) ||
                            (uses_[values_[other]] > 1 && ir::is_elementwise(op)) || is_result_[values_[other]] ||
                            worth_memory(other, graph_.type({contraction, 0}));
    if (!has_memory || (op != Op::input && other.node > contraction)) return {};
    return StridedOperand{other, {at.coefs, at.offset}};
  }

  const ir::Graph& graph_;
  const Libraries& libraries_;
  ValueTable values_;
  std::vector<uint32_t> uses_, reader_;
  std::vector<bool> is_result_;  // by value: of an epilogue
};

}  // namespace

Epilogues::Epilogues(const ir::Graph& graph, const Libraries& libraries)
    : by_node_(graph.nodes.size()), absorbed_(graph.nodes.size()) {
  Finder finder(graph, libraries);
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    if (!libraries.takes(graph.nodes[n], {}) || absorbed_[n]) continue;
    by_node_[n] = finder.find(n);
    if (by_node_[n])
      for (uint32_t a : by_node_[n]->nodes) absorbed_[a] = true;
  }
}

}  // namespace lazuli::lowering
