// The second step of fusion: which values lie in memory channels-last ([N, H, W, C], whatever their shape says). Those
// that convolutions make and read do where the libraries prefer it, and so do the values between them, so that nothing
// is turned on the way. What others see, inputs and outputs, is row-major.
#pragma once
#include <optional>
#include "lowering/value_table.h"

namespace lazuli::lowering {

class Epilogues;
class Libraries;

// After every value has its storage. Drops what a call could not read; a kernel that cannot drops more later.
void choose_layouts(const ir::Graph& graph, ValueTable& values, const Epilogues& epilogues, const Libraries& libraries);

// Strides of v's memory, for its shape.
ir::Dims memory_strides(const ir::Graph& graph, const ValueTable& values, ir::Value v);

// `window`, over `shape`, looks at row-major numbers of `base`: where that is in base's memory. None where it is no
// strided window there.
std::optional<ir::StridedWindow> in_memory(const ir::Graph& graph, const ValueTable& values, ir::Value base,
                                           const ir::Dims& shape, const ir::StridedWindow& window);

}  // namespace lazuli::lowering
