// Views between elementwise rows and reductions move up to the inputs of their cluster, so that a fused kernel has no
// view inside: view(f(a, b)) becomes f(view(a), view(b)). Only where f has no other use, so that nothing is computed
// twice, and only where the view feeds other such rows: a view that a library call or an output reads costs nothing.
//
// A product of a reduced type keeps its bias below the view: only there can its call absorb it, and round once.
#include "ir/passes/pass.h"
#include "ir/passes/rewrite.h"

namespace lazuli::ir::passes {
namespace {

bool joins_cluster(Op op) { return is_elementwise(op) || is_reduction(op); }

// Nodes all of whose uses are by elementwise rows and reductions, possibly through further views.
std::vector<bool> find_interior(const Graph& graph) {
  std::vector<bool> interior(graph.nodes.size(), true);
  for (Value v : graph.outputs) interior[v.node] = false;
  for (uint32_t id = static_cast<uint32_t>(graph.nodes.size()); id-- > 0;) {
    Op op = graph.nodes[id].op;
    bool passes_on = joins_cluster(op) || (is_view(op) && interior[id]);
    if (passes_on) continue;
    for (Value v : graph.nodes[id].inputs)
      if (v) interior[v.node] = false;
  }
  return interior;
}

// What a view does to an operand that broadcasts to the shape `full` that the view was made for. Each gives none where
// the operand would need more than one view.
using Dimensions = SizeSpan;

Dims aligned(Dimensions shape, size_t rank) {
  Dims out(rank - shape.size(), 1);
  out.append(shape);
  return out;
}

Value permuted(Builder& b, Value x, Dimensions full, const Attrs& attrs) {
  return b.permute(b.reshape(x, aligned(b.shape(x), full.size())), attrs.list(0));
}

Value sliced(Builder& b, Value x, Dimensions full, const Attrs& attrs) {
  Dims shape = aligned(b.shape(x), full.size()), starts, sizes, steps;
  for (size_t d = 0; d < full.size(); ++d) {
    bool whole = shape[d] == 1 && full[d] != 1;
    starts.push_back(whole ? Size(0) : attrs.list(0)[d]);
    sizes.push_back(whole ? Size(1) : attrs.list(1)[d]);
    steps.push_back(whole ? Size(1) : attrs.list(2)[d]);
  }
  return b.emit(Op::slice, {b.reshape(x, shape)}, Attrs().add(starts).add(sizes).add(steps));
}

Value flipped(Builder& b, Value x, Dimensions full, const Attrs& attrs) {
  Dims shape = aligned(b.shape(x), full.size()), dims;
  for (Size d : attrs.list(0))
    if (shape[d] != 1) dims.push_back(d);
  x = b.reshape(x, shape);
  return dims.empty() ? x : b.emit(Op::flip, {x}, Attrs().add(dims));
}

// Old and new dimensions fall into groups of equal size; the operand has to have all of a group, or none.
Value reshaped(Builder& b, Value x, Dimensions full, const Attrs& attrs) {
  auto target = attrs.list(0);
  Dims shape = aligned(b.shape(x), full.size()), result;
  if (std::ranges::equal(shape, full)) return b.reshape(x, target);
  size_t i = 0, k = 0;
  while (i < full.size() || k < target.size()) {
    size_t first_i = i, first_k = k;
    Size from = i < full.size() ? full[i++] : Size(1), to = k < target.size() ? target[k++] : Size(1);
    while (from != to) {
      if (from < to && i < full.size())
        from *= full[i++];
      else if (k < target.size())
        to *= target[k++];
      else
        return {};
    }
    bool has = false, lacks = false;
    for (size_t d = first_i; d < i; ++d)
      if (full[d] != 1) (shape[d] == 1 ? lacks : has) = true;
    if (has && lacks) return {};
    for (size_t d = first_k; d < k; ++d) result.push_back(lacks ? Size(1) : target[d]);
  }
  return b.reshape(x, result);
}

using MoveFn = Value (*)(Builder& b, Value x, Dimensions full, const Attrs& attrs);
constexpr struct {
  Op view;
  MoveFn move;
} kMoves[] = {{Op::reshape, reshaped}, {Op::permute, permuted}, {Op::slice, sliced}, {Op::flip, flipped}};

MoveFn move_of(Op view) {
  for (auto [op, move] : kMoves)
    if (op == view) return move;
  return nullptr;
}

class Hoister {
 public:
  explicit Hoister(const Graph& graph) : r_(graph), uses_(count_uses(graph)), interior_(find_interior(graph)) {}

  Graph run() {
    const Graph& from = r_.from();
    for (uint32_t id = 0; id < from.nodes.size(); ++id) {
      const Node& n = from.nodes[id];
      r_.begin(id);
      Value v;
      if (is_view(n.op) && interior_[id] && product(n.types[0].shape) > 0)
        v = hoist(n.op, n.attrs, n.types[0].shape, r_[n.inputs[0]]);
      if (v)
        r_.replace(id, v);
      else
        r_.copy(id);
      if (joins_cluster(n.op) || is_view(n.op)) remember(id);
    }
    return r_.finish();
  }

 private:
  // New nodes that may be taken apart: made from an old one with a single use.
  void remember(uint32_t id) {
    uint32_t now = r_[{id, 0}].node;
    if (now >= single_use_.size()) single_use_.resize(now + 1, kUnknown);
    // Two old nodes that became one have two uses.
    single_use_[now] = single_use_[now] == kUnknown && uses_[id] == 1 ? kYes : kNo;
  }

  bool has_single_use(Value v) const { return v.node < single_use_.size() && single_use_[v.node] == kYes; }

  bool is_biased_product(const Node& n) {
    if (n.op != Op::add || !is_reduced_floating(n.types[0].dtype)) return false;
    const Graph& graph = r_.to();
    auto is_product = [&](Value v) {
      while (graph[v].op == Op::reshape) v = graph[v].inputs[0];
      return is_contraction(graph[v].op);
    };
    auto repeats = [&](Value v) { return graph.type(v).numel() < n.types[0].numel(); };
    return (is_product(n.inputs[0]) && repeats(n.inputs[1])) || (is_product(n.inputs[1]) && repeats(n.inputs[0]));
  }

  // The view of elementwise value `x`, moved above it; none where it cannot, as for a 0-dim value made of 0-dim ones,
  // which only a view can give the shape `to`.
  Value hoist(Op view, const Attrs& attrs, const Dims& to, Value x) {
    const Node producer = r_.to()[x];  // a copy: emitting moves nodes
    MoveFn move = move_of(view);
    if (!move || !is_elementwise(producer.op) || !has_single_use(x) || is_biased_product(producer)) return {};
    std::vector<Value> operands;
    for (Value v : producer.inputs) {
      Value moved = v;
      if (r_.to().type(v).rank() != 0) {
        bool full = r_.to().type(v).shape == producer.types[0].shape;
        moved = full ? hoist(view, attrs, to, v) : Value{};
        if (!moved) moved = move(r_.builder(), v, producer.types[0].shape, attrs);
      }
      if (!moved) return {};
      operands.push_back(moved);
    }
    Value result = r_.builder().emit(producer.op, operands, producer.attrs);
    return r_.to().type(result).shape == to ? result : Value{};
  }

  enum : uint8_t { kUnknown, kYes, kNo };
  Rewriter r_;
  std::vector<uint32_t> uses_;
  std::vector<bool> interior_;
  std::vector<uint8_t> single_use_;
};

}  // namespace

Graph hoist_views(const Graph& graph) { return Hoister(graph).run(); }

}  // namespace lazuli::ir::passes
