#include "lowering/graph/align_products.h"
#include <algorithm>
#include "ir/passes/rewrite.h"
#include "lowering/fusion/library_calls.h"

namespace lazuli::lowering {
namespace {

using ir::Attrs;
using ir::Dims;
using ir::Op;
using ir::Value;

// A size below which copying an operand would cost what the faster product saves.
constexpr int64_t kLarge = 128;

bool is_transposed(const ir::Graph& graph, Value x) {
  const ir::Node& node = graph[x];
  return node.op == Op::permute && node.attrs.list(0)[0] == 1;
}

// x with zeros behind it along dim, up to `size`. Under a transposing view, where the memory is made.
Value extended(ir::GraphBuilder& b, Value x, ir::Size dim, ir::Size size) {
  if (b.shape(x)[dim] == size) return x;
  if (is_transposed(b.graph(), x)) return b.transpose(extended(b, b.graph()[x].inputs[0], 1 - dim, size));
  Dims zeros = b.shape(x);
  zeros[dim] = size - zeros[dim];
  return b.emit(Op::cat, {x, b.full(zeros, 0, b.dtype(x))}, Attrs().add(dim));
}

Value aligned(ir::Rewriter& r, const ir::Node& node, ir::Size multiple) {
  const Value a = r[node.inputs[0]], b = r[node.inputs[1]];
  const Dims shape = node.types[0].shape;
  ir::Size m = shape[0], n = shape[1], k = r.builder().shape(a)[1];
  if (std::min({m, n, k}) < kLarge) return {};
  const auto align = [&](ir::Size& size) { size = (size + multiple - 1) / multiple * multiple; };
  // Only sizes along which somebody's memory is contiguous.
  const bool a_transposed = is_transposed(r.to(), a), b_transposed = is_transposed(r.to(), b);
  align(n);
  if (!a_transposed || b_transposed) align(k);
  if (a_transposed) align(m);
  if (m == shape[0] && n == shape[1] && k == r.builder().shape(a)[1]) return {};
  const Value all = r.builder().emit(Op::matmul, {extended(r.builder(), extended(r.builder(), a, 1, k), 0, m),
                                                  extended(r.builder(), extended(r.builder(), b, 0, k), 1, n)});
  return r.builder().emit(Op::slice, {all}, Attrs().add(Dims{0, 0}).add(shape).add(Dims{1, 1}));
}

int64_t multiple_of(const ir::Node& node, const Libraries& libraries) {
  return node.op == Op::matmul && node.types[0].rank() == 2 ? libraries.good_multiple(node) : 1;
}

}  // namespace

bool is_slow_product(const ir::Node& node, const Libraries& libraries) { return multiple_of(node, libraries) > 1; }

ir::Graph align_products(const ir::Graph& graph, const Libraries& libraries) {
  return ir::rewrite(graph, [&](ir::Rewriter& r, uint32_t id) -> Value {
    const ir::Node& node = graph.nodes[id];
    const int64_t multiple = multiple_of(node, libraries);
    return multiple > 1 ? aligned(r, node, multiple) : Value{};
  });
}

}  // namespace lazuli::lowering
