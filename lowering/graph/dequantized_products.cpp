#include "lowering/graph/dequantized_products.h"
#include <unordered_set>
#include "ir/body.h"
#include "ir/passes/rewrite.h"
#include "lowering/fusion/library_calls.h"
#include "lowering/graph/depth_pieces.h"

namespace lazuli::lowering {
namespace {

using ir::Attrs;
using ir::Dims;
using ir::DType;
using ir::Op;
using ir::Size;
using ir::Value;

constexpr int64_t kMostRows = 4;
constexpr int64_t kLeastElements = int64_t{1} << 16;  // of the matrix; below it is in a cache in any case
constexpr size_t kMostSteps = 32;                     // by which an element is computed

// Of a plan that serves other sizes, this is not asked before all else is certain: it serves other numbers of rows only
// where the answer is no.
bool is_short(Size rows) { return rows > 0 && rows <= kMostRows; }
bool may_be_short(Size rows) { return rows.is_symbolic() || is_short(rows); }

// v in another type, and in one step where the type between holds all that v is made of, as bfloat16 holds bytes.
Value in_one_step(ir::Rewriter& r, Value v, DType type) {
  const ir::Node node = r.to()[v];
  if (node.op == Op::convert && ir::preserves(r.to().type(node.inputs[0]).dtype, node.types[0].dtype))
    return in_one_step(r, node.inputs[0], type);
  if (node.op == Op::permute || node.op == Op::reshape)
    return r.builder().emit(node.op, {in_one_step(r, node.inputs[0], type)}, node.attrs);
  return r.builder().convert(v, type);
}

class Products {
 public:
  explicit Products(const ir::Graph& graph) : graph_(graph), uses_(ir::count_uses(graph)) {}

  // [rows, depth] x [depth, columns] as a sum; none if the product had better stay one.
  Value rebuild(ir::Rewriter& r, uint32_t id) const {
    const ir::Node& n = graph_.nodes[id];
    const Value a = n.inputs[0], b = n.inputs[1];
    ir::Builder& to = r.builder();
    const ir::DType type = n.types[0].dtype;
    const auto turned = [&](Value x) { return to.transpose(r[x]); };
    if (const Size rows = graph_.type(a).shape[0]; may_be_short(rows) && is_large(b)) {
      DepthPieces pieces(graph_, before_transpose(b));
      if (is_dequantized(n, b, pieces) && is_short(rows)) return sum(r, r[a], pieces, turned(b), type);
    }
    if (const Size rows = graph_.type(b).shape[1]; may_be_short(rows) && is_large(a)) {
      DepthPieces pieces(graph_, a);
      if (is_dequantized(n, a, pieces) && is_short(rows)) return to.transpose(sum(r, turned(b), pieces, r[a], type));
    }
    return {};
  }

 private:
  // What v is the transpose of, if anything.
  Value before_transpose(Value v) const {
    const ir::Node& node = graph_[v];
    return node.op == Op::permute && ir::Dims(node.attrs.list(0)) == Dims{1, 0} ? node.inputs[0] : Value{};
  }

  // [m, n]: each of m rows times each of n rows of the matrix, `whole` or in pieces. Their sums have one iteration
  // space, so that one kernel computes an element of the matrix once for all of them. Narrow floats are multiplied and
  // added up in float32, as in any product.
  static Value sum(ir::Rewriter& r, Value rows, DepthPieces& pieces, Value whole, DType type) {
    ir::Builder& b = r.builder();
    const DType wide = ir::compute_type(type);
    const int64_t m = b.shape(rows)[0];
    const Size n = b.shape(whole)[0];
    std::vector<Value> matrices;
    for (int64_t p = 0; p < pieces.count(); ++p)
      matrices.push_back(in_one_step(r, pieces.count() == 1 ? whole : pieces.matrix(r, p), wide));
    rows = b.convert(pieces.count() == 1 ? rows : pieces.in_order(b, rows), wide);
    const Dims shape = b.shape(matrices[0]);
    const Size k = shape[1];
    std::vector<Value> results;
    for (int64_t i = 0; i < m; ++i) {
      Value terms;
      for (int64_t p = 0; p < pieces.count(); ++p) {
        const Value row = b.emit(Op::slice, {rows}, Attrs().add(Dims{i, k * p}).add(Dims{1, k}).add(Dims{1, 1}));
        const Value products = b.mul(matrices[static_cast<size_t>(p)], b.broadcast(row, shape));
        terms = terms ? b.add(terms, products) : products;
      }
      results.push_back(b.reshape(b.sum(terms, Dims{1}, true), Dims{1, n}));
    }
    return b.convert(m == 1 ? results[0] : b.emit(Op::cat, results, Attrs{{0}}), type);
  }

  bool is_large(Value matrix) const {
    const Size elements = graph_.type(matrix).numel();
    return !elements.is_symbolic() && elements >= kLeastElements;
  }

  // Whether the matrix is computed for this product alone, element by element, from values of fewer bytes. Bytes are
  // made int32 by the product itself.
  bool is_dequantized(const ir::Node& product, Value v, const DepthPieces& pieces) const {
    const Size elements = graph_.type(v).numel();
    if (product.op == Op::int_mm) return true;
    Size bytes = 0;
    size_t steps = 0;
    std::unordered_set<uint32_t> seen;
    for (std::vector<Value> left{v}; !left.empty();) {
      const Value x = left.back();
      left.pop_back();
      if (!x || !seen.insert(x.node).second) continue;
      const ir::Node& node = graph_[x];
      const bool put_together = pieces.is_concatenation(x.node);
      if (!ir::is_elementwise(node.op) && !ir::is_view(node.op) && !put_together) {
        bytes += node.types[x.result].bytes();
        continue;
      }
      if (ir::can_fail(node.op) || (uses_[x.node] > 1 && 2 * graph_.type(x).numel() > elements)) return false;
      steps += ir::is_elementwise(node.op);
      left.insert(left.end(), node.inputs.begin(), node.inputs.end());
    }
    return steps > 0 && steps <= kMostSteps && 4 * bytes <= 3 * graph_.type(v).bytes();
  }

  const ir::Graph& graph_;
  const std::vector<uint32_t> uses_;
};

}  // namespace

bool is_of_few_rows(const ir::Node& node, const Libraries& libraries) {
  const ir::Type& type = node.types[0];
  return (node.op == Op::matmul || node.op == Op::int_mm) && type.rank() == 2 && libraries.sums_few_rows() &&
         (may_be_short(type.shape[0]) || may_be_short(type.shape[1]));
}

ir::Graph dequantized_products(const ir::Graph& graph, const Libraries& libraries) {
  const Products products(graph);
  return ir::rewrite(graph, [&](ir::Rewriter& r, uint32_t id) -> Value {
    return is_of_few_rows(graph.nodes[id], libraries) ? products.rebuild(r, id) : Value{};
  });
}

}  // namespace lazuli::lowering
