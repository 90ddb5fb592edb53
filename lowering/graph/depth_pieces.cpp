#include "lowering/graph/depth_pieces.h"
#include <algorithm>

namespace lazuli::lowering {
namespace {

using ir::Attrs;
using ir::Dims;
using ir::Op;
using ir::Value;

constexpr size_t kMostPieces = 8;

}  // namespace

DepthPieces::DepthPieces(const ir::Graph& graph, Value matrix) : graph_(graph), matrix_(matrix) {
  if (!matrix || !find(matrix)) count_ = 1;
}

// Whether there is such a concatenation on the way to v, and all shapes on the way can be cut as it is.
bool DepthPieces::find(Value v) {
  const ir::Node& node = graph_[v];
  const Dims& shape = graph_.type(v).shape;
  if (node.op == Op::reshape) return find(node.inputs[0]) && fits(shape);
  if (ir::is_elementwise(node.op)) {
    const bool found =
        std::ranges::any_of(node.inputs, [&](Value x) { return x && graph_.type(x).shape == shape && find(x); });
    return found && fits(shape);
  }
  if (node.op != Op::cat || node.inputs.size() < 2 || node.inputs.size() > kMostPieces) return false;
  const Dims& first = graph_.type(node.inputs[0]).shape;
  for (Value x : node.inputs)
    if (graph_.type(x).shape != first) return false;
  const auto dim = static_cast<size_t>(node.attrs.number(0));
  node_ = v.node;
  count_ = static_cast<int64_t>(node.inputs.size());
  alternate_ = dim + 1 == shape.size() && first.back() == 1;
  return fits(shape) && dim == cut_dim(shape);
}

bool DepthPieces::fits(const Dims& shape) const {
  if (shape.size() < 2 || (!alternate_ && shape[0] != graph_.type(matrix_).shape[0])) return false;
  const ir::Size size = shape[cut_dim(shape)];
  return !size.is_symbolic() && size % count_ == 0;
}

Dims DepthPieces::dims_of_piece(Dims shape) const {
  const size_t dim = cut_dim(shape);
  shape[dim] = shape[dim] / count_;
  return shape;
}

Value DepthPieces::part(ir::Builder& b, Value whole, int64_t i) const {
  const Dims& shape = b.shape(whole);
  const size_t dim = cut_dim(shape);
  const Dims sizes = dims_of_piece(shape);
  Dims starts(shape.size(), 0), steps(shape.size(), 1);
  starts[dim] = alternate_ ? ir::Size(i) : sizes[dim] * i;
  if (alternate_) steps[dim] = count_;
  return b.emit(Op::slice, {whole}, Attrs().add(starts).add(sizes).add(steps));
}

Value DepthPieces::matrix(ir::Rewriter& r, int64_t i) { return piece(r, matrix_, i); }

Value DepthPieces::piece(ir::Rewriter& r, Value v, int64_t i) {
  Value& made = made_[(uint64_t{v.node} << 8) + static_cast<uint64_t>(i)];
  if (made) return made;
  const ir::Node& node = graph_[v];
  const Dims shape = graph_.type(v).shape;
  ir::Builder& b = r.builder();
  Value result;
  if (v.node == node_) {
    result = r[node.inputs[static_cast<size_t>(i)]];
  } else if (!fits(shape) || (!ir::is_elementwise(node.op) && node.op != Op::reshape)) {
    result = part(b, r[v], i);
  } else if (node.op == Op::reshape) {
    const Value x = node.inputs[0];
    result = fits(graph_.type(x).shape) ? b.reshape(piece(r, x, i), dims_of_piece(shape)) : part(b, r[v], i);
  } else {
    std::vector<Value> operands;
    for (Value x : node.inputs)
      operands.push_back(graph_.type(x).shape == shape ? piece(r, x, i) : part(b, b.broadcast(r[x], shape), i));
    result = b.emit(node.op, operands, node.attrs);
  }
  return made_[(uint64_t{v.node} << 8) + static_cast<uint64_t>(i)] = result;
}

Value DepthPieces::in_order(ir::Builder& b, Value rows) const {
  if (!alternate_) return rows;
  std::vector<Value> parts;
  for (int64_t i = 0; i < count_; ++i) parts.push_back(part(b, rows, i));
  return b.emit(Op::cat, parts, Attrs{{1}});
}

}  // namespace lazuli::lowering
