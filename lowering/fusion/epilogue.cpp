#include "lowering/fusion/epilogue.h"
#include <algorithm>
#include <bit>
#include "lowering/fusion/storage_choice.h"

namespace lazuli::lowering {
namespace {

using ir::Op;
using ir::Value;

struct Entry {
  Op op;
  PostOp::Kind kind;
};
const Entry kPostOps[] = {
    {Op::add, PostOp::Add},
    {Op::mul, PostOp::Mul},
    {Op::relu, PostOp::Relu},
    {Op::gelu, PostOp::GeluErf},
    {Op::gelu_tanh, PostOp::GeluTanh},
    {Op::sigmoid, PostOp::Sigmoid},
    {Op::tanh, PostOp::Tanh},
    {Op::silu, PostOp::Silu},
};
const Entry* post_op(Op op) {
  for (const Entry& e : kPostOps)
    if (e.op == op) return &e;
  return nullptr;
}

constexpr size_t kMaxOps = 4;

class Finder {
 public:
  Finder(const ir::Graph& graph, const Libraries& libraries)
      : graph_(graph), libraries_(libraries), values_(graph), uses_(values_.count()), reader_(values_.count()) {
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
    Value at = e->result;
    std::vector<uint32_t> views;  // reshapes passed since the last op that was taken
    while (e->ops.size() < kMaxOps && uses_[values_[at]] == 1) {
      const uint32_t n = reader_[values_[at]];
      const Value next{n, 0};
      if (graph_.type(next).dtype != made.dtype || graph_.type(next).numel() != made.numel()) break;
      if (ir::is_view(graph_.nodes[n].op)) {
        if (!shares_bytes(graph_, next)) break;
        views.push_back(n);
      } else if (take(*e, contraction, n, at)) {
        e->nodes.insert(e->nodes.end(), views.begin(), views.end());
        views.clear();
        e->nodes.push_back(n);
        e->result = next;
      } else {
        break;
      }
      at = next;
    }
    return e->ops.empty() ? nullptr : std::move(e);
  }

 private:
  bool take(Epilogue& e, uint32_t contraction, uint32_t n, Value at) {
    const ir::Node& node = graph_.nodes[n];
    const Entry* entry = post_op(node.op);
    if (!entry || graph_.type({n, 0}).shape != graph_.type(at).shape) return false;
    PostOp op{entry->kind};
    if (node.inputs.size() == 2) {
      const Value other = node.inputs[node.inputs[0] == at ? 1 : 0];
      if (other == at || graph_.type(other).dtype != graph_.type(at).dtype) return false;
      if (op.kind == PostOp::Mul && graph_[other].op == Op::constant && !graph_[other].attrs.size(0).is_symbolic()) {
        op.kind = PostOp::Scale;
        op.scale = std::bit_cast<double>(graph_[other].attrs.number(0));
      } else {
        auto operand = window_of(contraction, other, graph_.type(at).shape);
        if (!operand) return false;
        op.operand = {graph_.type(other).dtype, graph_.type({contraction, 0}).shape, operand->window.strides};
        return append(e, contraction, std::move(op), std::move(operand));
      }
    }
    return append(e, contraction, std::move(op), {});
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

  // Worth a kernel and memory of its own: without it a product of a reduced type is rounded once more, before the op.
  // Such are the biases that autocast casts.
  bool worth_memory(Value other, const ir::Type& made) const {
    constexpr int64_t kSmall = 1 << 15;
    const ir::Size numel = graph_.type(other).numel();
    return ir::is_elementwise(graph_[other].op) && ir::is_reduced_floating(made.dtype) &&
           (numel <= kSmall || 2 * numel <= made.numel());
  }

  // `other`, broadcast to `shape`, as a window in the contraction's own shape on a value that exists by then and has
  // memory anyway, or is worth it.
  std::optional<StridedOperand> window_of(uint32_t contraction, Value other, const ir::Dims& shape) {
    const ir::Dims& own = graph_.type({contraction, 0}).shape;
    Space space{own, own.size()};
    Form at = kept_form(space);
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
                            (uses_[values_[other]] > 1 && ir::is_elementwise(op)) ||
                            worth_memory(other, graph_.type({contraction, 0}));
    if (!has_memory || (op != Op::input && other.node > contraction)) return {};
    return StridedOperand{other, {at.coefs, at.offset}};
  }

  const ir::Graph& graph_;
  const Libraries& libraries_;
  ValueTable values_;
  std::vector<uint32_t> uses_, reader_;
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
