// Padding by negative amounts crops. Fusion writes padding as stores into a larger result and cropping as a view, so a
// row that does both becomes the two.
#include <algorithm>
#include "ir/passes/pass.h"
#include "ir/passes/rewrite.h"

namespace lazuli::ir {

bool crops(const Node& node) {
  if (node.op != Op::pad) return false;
  const auto negative = [](SizeSpan v) { return std::any_of(v.begin(), v.end(), [](Size n) { return n < 0; }); };
  return negative(node.attrs.list(0)) || negative(node.attrs.list(1));
}

namespace {

Value crop_then_pad(GraphBuilder& b, const Node& node, Value x, Value fill) {
  Dims starts, sizes, low, high;
  const Dims shape = b.shape(x);
  for (size_t d = 0; d < shape.size(); ++d) {
    // Elements [begin, end) of the result are x's; what is cropped on one side may have been padding of the other.
    const Size size = node.types[0].shape[d], before = node.attrs.list(0)[d];
    const Size begin = clamp(before, 0, size);
    const Size end = clamp(before + shape[d], begin, size);
    starts.push_back(end > begin ? begin - before : Size(0));
    sizes.push_back(end - begin);
    low.push_back(begin);
    high.push_back(size - end);
  }
  const Value inside = b.emit(Op::slice, {x}, Attrs().add(starts).add(sizes).add(Dims(shape.size(), 1)));
  return b.emit(Op::pad, {inside, fill}, Attrs().add(low).add(high));
}

}  // namespace

Graph passes::crop_pads(const Graph& graph) {
  return rewrite(graph, [&](Rewriter& r, uint32_t id) -> Value {
    const Node& node = graph.nodes[id];
    return crops(node) ? crop_then_pad(r.builder(), node, r[node.inputs[0]], r[node.inputs[1]]) : Value{};
  });
}

}  // namespace lazuli::ir
