// Where a value's elements are in its memory, which is row-major or channels-last (value_table.h).
#pragma once
#include <optional>
#include "lowering/index/value_table.h"

namespace lazuli::lowering {

// Strides of v's memory, for its shape.
ir::Dims memory_strides(const ir::Graph& graph, const ValueTable& values, ir::Value v);

// `window`, over `shape`, looks at row-major numbers of `base`: where that is in base's memory. None where it is no
// strided window there.
std::optional<ir::StridedWindow> in_memory(const ir::Graph& graph, const ValueTable& values, ir::Value base,
                                           const ir::Dims& shape, const ir::StridedWindow& window);

}  // namespace lazuli::lowering
