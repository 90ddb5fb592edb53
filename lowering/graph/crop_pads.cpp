#include "lowering/graph/crop_pads.h"
#include <algorithm>
#include "ir/builder.h"

namespace lazuli::lowering {
namespace {

using ir::Attrs;
using ir::Dims;
using ir::Op;
using ir::Value;

bool crops(const ir::Node& node) {
  if (node.op != Op::pad) return false;
  auto negative = [](ir::SizeSpan v) { return std::any_of(v.begin(), v.end(), [](ir::Size n) { return n < 0; }); };
  return negative(node.attrs.list(0)) || negative(node.attrs.list(1));
}

Value crop_then_pad(ir::GraphBuilder& b, const ir::Node& node, Value x, Value fill) {
  Dims starts, sizes, low, high;
  const Dims shape = b.shape(x);
  for (size_t d = 0; d < shape.size(); ++d) {
    // Elements [begin, end) of the result are x's; what is cropped on one side may have been padding of the other.
    const ir::Size size = node.types[0].shape[d], before = node.attrs.list(0)[d];
    const ir::Size begin = clamp(before, 0, size);
    const ir::Size end = clamp(before + shape[d], begin, size);
    starts.push_back(end > begin ? begin - before : ir::Size(0));
    sizes.push_back(end - begin);
    low.push_back(begin);
    high.push_back(size - end);
  }
  const Value inside = b.emit(Op::slice, {x}, Attrs().add(starts).add(sizes).add(Dims(shape.size(), 1)));
  return b.emit(Op::pad, {inside, fill}, Attrs().add(low).add(high));
}

}  // namespace

ir::Graph crop_pads(ir::Graph graph) {
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), crops)) return graph;
  ir::Graph out;
  out.lines = graph.lines;
  out.input_count = graph.input_count;
  out.scalar_count = graph.scalar_count;
  out.donated = graph.donated;
  out.fleeting = graph.fleeting;
  ir::GraphBuilder b(out);
  std::vector<Value> to(graph.nodes.size());
  auto moved = [&](Value v) { return v ? Value{to[v.node].node, to[v.node].result + v.result} : v; };
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const ir::Node& node = graph.nodes[n];
    std::vector<Value> inputs;
    for (Value v : node.inputs) inputs.push_back(moved(v));
    b.set_line(node.line);
    to[n] =
        crops(node) ? crop_then_pad(b, node, inputs[0], inputs[1]) : b.emit(node.op, inputs, node.attrs, node.types);
  }
  for (Value v : graph.outputs) out.outputs.push_back(moved(v));
  return out;
}

}  // namespace lazuli::lowering
