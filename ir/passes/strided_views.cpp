// Windows become views: as_strided of a dense value is rewritten to reshape, slice, permute and broadcast where it is
// these; a scatter that overwrites everything becomes the source, rearranged; and a window read from where it was just
// written is what was written.
#include "ir/passes/grid.h"
#include "ir/passes/pass.h"
#include "ir/passes/rewrite.h"

namespace lazuli::ir::passes {
namespace {

Value read(Rewriter& r, const Node& n, Value x) {
  auto shape = n.attrs.list(0), strides = n.attrs.list(1);
  const Node& source = r.to()[x];
  bool same_window = source.op == Op::as_strided_scatter &&
                     std::ranges::equal(r.to().type(source.inputs[1]).shape, shape) &&
                     std::ranges::equal(source.attrs.list(0), strides) && source.attrs.size(1) == n.attrs.size(2);
  if (same_window) return source.inputs[1];
  auto w = find_grid(r.to().type(x).shape, shape, strides, n.attrs.size(2));
  return w ? read_window(r.builder(), x, *w, shape) : Value{};
}

Value write(Rewriter& r, const Node& n, Value base, Value src) {
  const Dims& shape = r.to().type(base).shape;
  auto w = find_grid(shape, r.to().type(src).shape, n.attrs.list(0), n.attrs.size(1));
  return w && w->covers ? write_covering_window(r.builder(), src, *w, shape) : Value{};
}

}  // namespace

Graph strided_views(const Graph& graph) {
  return rewrite(graph, [](Rewriter& r, uint32_t id) {
    const Node& n = r.from().nodes[id];
    if (n.op == Op::as_strided) return read(r, n, r[n.inputs[0]]);
    if (n.op == Op::as_strided_scatter) return write(r, n, r[n.inputs[0]], r[n.inputs[1]]);
    return Value{};
  });
}

}  // namespace lazuli::ir::passes
