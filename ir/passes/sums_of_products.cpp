// A weight that is used at every step of time has a gradient that is a sum of products, each over the few rows of a
// step. a1 b1 + a2 b2 + ... is one product of the a's side by side and the b's below each other: instead of walking
// through a sum of the weight's size at every step, small operands are copied once. A bias's is a sum of sums over the
// same rows, which is one over the b's below each other: a kernel for any number of steps and of rows.
#include <array>
#include "ir/passes/pass.h"
#include "ir/passes/rewrite.h"

namespace lazuli::ir::passes {
namespace {

constexpr size_t kFewest = 4;
constexpr int64_t kMostRows = 64;  // of a sum that is worth a copy of what it adds up

class Sums {
 public:
  explicit Sums(const Graph& graph) : graph_(graph), uses_(count_uses(graph)), inner_(graph.nodes.size(), false) {
    for (const Node& n : graph.nodes)
      if (n.op == Op::add)
        for (Value v : n.inputs) inner_[v.node] = is_part(v, n);
  }

  // The sum that node `id` is the last addition of, with its products or sums of rows as one; none if they are too few.
  Value rebuild(Rewriter& r, uint32_t id) const {
    const Node& n = graph_.nodes[id];
    if (n.op != Op::add || inner_[id]) return {};
    std::vector<Value> products, rows, others;
    for (Value v : terms(n)) {
      const bool joins = graph_.type(v) == n.types[0];
      if (const Value summed = joins ? rows_of(v) : Value{})
        rows.push_back(summed);
      else
        (joins && is_short_product(v) ? products : others).push_back(v);
    }
    const bool sums = std::ranges::any_of(rows, [&](Value v) { return graph_.type(v).shape[0] > 1; });
    if (products.size() < kFewest && (rows.size() < kFewest || !sums)) return {};
    Value sum = rows.empty() ? joined(r, products) : sum_of(r, rows, n.types[0].shape);
    for (Value v : others) sum = r.builder().add(r[v], sum);
    return sum;
  }

 private:
  // Whether `v` is added up further by `sum` and by nothing else.
  bool is_part(Value v, const Node& sum) const {
    return graph_[v].op == Op::add && uses_[v.node] == 1 && graph_.type(v) == sum.types[0];
  }

  std::vector<Value> terms(const Node& sum) const {
    std::vector<Value> out, left(sum.inputs.rbegin(), sum.inputs.rend());
    while (!left.empty()) {
      const Value v = left.back();
      left.pop_back();
      if (!inner_[v.node]) {
        out.push_back(v);
        continue;
      }
      const Node& n = graph_[v];
      left.insert(left.end(), n.inputs.rbegin(), n.inputs.rend());
    }
    return out;
  }

  // The product that `v` is, or is the transpose of; none if something else needs either.
  const Node* product_of(Value v) const {
    const Node* n = uses_[v.node] == 1 ? &graph_[v] : nullptr;
    if (n && is_transposed(*n)) n = uses_[n->inputs[0].node] == 1 ? &graph_[n->inputs[0]] : nullptr;
    return n && n->op == Op::matmul && n->types[0].rank() == 2 ? n : nullptr;
  }

  bool is_transposed(const Node& n) const {
    return n.op == Op::permute && std::ranges::equal(n.attrs.list(0), std::array<Size, 2>{1, 0});
  }

  // Of matrices whose copy is less than the sum.
  bool is_short_product(Value v) const {
    const Node* n = product_of(v);
    if (!n) return false;
    const Dims &a = graph_.type(n->inputs[0]).shape, &b = graph_.type(n->inputs[1]).shape;
    return a.size() == 2 && b.size() == 2 && a[1] * (a[0] + b[1]) <= a[0] * b[1];
  }

  // The few rows, [rows, n], whose sum `v`, [n], is, or the one row that it is; none if something else needs the sum.
  Value rows_of(Value v) const {
    const Node& n = graph_[v];
    if (n.op != Op::reshape || uses_[v.node] != 1 || n.types[0].rank() != 1) return {};
    const Value row = n.inputs[0];
    if (graph_.type(row).shape != Dims{1, n.types[0].shape[0]}) return {};
    const Node& sum = graph_[row];
    if (sum.op != Op::sum || !std::ranges::equal(sum.attrs.list(0), std::array<Size, 1>{0})) return row;
    const Value summed = sum.inputs[0];
    const bool joins =
        uses_[row.node] == 1 && graph_.type(summed).rank() == 2 && graph_.type(summed).shape[0] <= kMostRows;
    return joins ? summed : row;
  }

  Value sum_of(Rewriter& r, const std::vector<Value>& rows, const Dims& shape) const {
    Builder& b = r.builder();
    std::vector<Value> all;
    for (Value v : rows) all.push_back(r[v]);
    Attrs attrs;
    attrs.add(Dims{0}).add(true);
    return b.reshape(b.emit(Op::sum, {b.emit(Op::cat, all, Attrs{{0}})}, attrs), shape);
  }

  Value joined(Rewriter& r, const std::vector<Value>& products) const {
    Builder& b = r.builder();
    std::vector<Value> left, right;  // the left ones transposed
    for (Value v : products) {
      const Node& n = *product_of(v);
      const Value x = r[n.inputs[0]], y = r[n.inputs[1]];
      const bool turned = is_transposed(graph_[v]);  // (x y)^T is y^T x^T
      left.push_back(turned ? y : b.transpose(x));
      right.push_back(turned ? b.transpose(x) : y);
    }
    const Attrs below{{0}};
    return b.emit(Op::matmul, {b.transpose(b.emit(Op::cat, left, below)), b.emit(Op::cat, right, below)});
  }

  const Graph& graph_;
  const std::vector<uint32_t> uses_;
  std::vector<bool> inner_;
};

}  // namespace

Graph sums_of_products(const Graph& graph) {
  const Sums sums(graph);
  return rewrite(graph, [&](Rewriter& r, uint32_t id) { return sums.rebuild(r, id); });
}

}  // namespace lazuli::ir::passes
