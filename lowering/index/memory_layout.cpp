#include "lowering/index/memory_layout.h"

#include "lowering/index/linear_form.h"

namespace lazuli::lowering {

ir::Dims memory_strides(const ir::Graph& graph, const ValueTable& values, ir::Value v) {
  const ir::Dims& shape = graph.type(v).shape;
  return values.channels_last(v) ? ir::channels_last_strides(shape) : ir::contiguous_strides(shape);
}

std::optional<ir::StridedWindow> in_memory(const ir::Graph& graph, const ValueTable& values, ir::Value base,
                                           const ir::Dims& shape, const ir::StridedWindow& window) {
  if (!values.channels_last(values.home(base))) return window;
  const Form at{window.strides, window.offset};
  const auto inside =
      through_unsplit(at, {shape, shape.size()}, graph.type(base).shape, {memory_strides(graph, values, base), 0});
  if (!inside) return {};
  return ir::StridedWindow{inside->coefs, inside->offset};
}

}  // namespace lazuli::lowering
