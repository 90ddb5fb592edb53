#include "lowering/graph/byte_products.h"
#include "ir/passes/rewrite.h"
#include "lowering/fusion/library_calls.h"

namespace lazuli::lowering {
namespace {

using ir::DType;
using ir::Op;
using ir::Value;

// The bytes that `v` is, converted, in the views that lie between; none if it is something else.
Value bytes_of(ir::Rewriter& r, Value v, bool may_be_unsigned) {
  const ir::Node& node = r.from()[v];
  if (node.op == Op::convert) {
    const DType type = r.from().type(node.inputs[0]).dtype;
    return type == DType::I8 || (may_be_unsigned && type == DType::U8) ? r[node.inputs[0]] : Value{};
  }
  if (node.op != Op::permute && node.op != Op::reshape) return {};
  const Value x = bytes_of(r, node.inputs[0], may_be_unsigned);
  return x ? r.builder().emit(node.op, {x}, node.attrs) : Value{};
}

}  // namespace

bool is_of_int32(const ir::Node& node, const Libraries& libraries) {
  return node.op == Op::matmul && node.types[0].dtype == DType::I32 && node.types[0].rank() == 2 &&
         libraries.multiply_bytes();
}

ir::Graph byte_products(const ir::Graph& graph, const Libraries& libraries) {
  return ir::rewrite(graph, [&](ir::Rewriter& r, uint32_t id) -> Value {
    const ir::Node& node = graph.nodes[id];
    if (!is_of_int32(node, libraries)) return {};
    const Value a = bytes_of(r, node.inputs[0], true), b = a ? bytes_of(r, node.inputs[1], false) : Value{};
    return b ? r.builder().emit(Op::int_mm, {a, b}) : Value{};
  });
}

}  // namespace lazuli::lowering
