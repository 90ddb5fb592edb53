// The second step of fusion: which values lie in memory channels-last ([N, H, W, C], whatever their shape says). Those
// that convolutions make and read do where the libraries prefer it, and so do the values between them, so that nothing
// is turned on the way. What others see, inputs and outputs, is row-major.
#pragma once
#include "lowering/index/value_table.h"

namespace lazuli::lowering {

class Epilogues;
class Libraries;

// With several channels and several points; others lie alike either way.
bool is_image(const ir::Type& t);

// Outputs that show such a value as it lies, [N, H, W, C] row-major, and are read by nobody, share its memory. To be
// called again when values are channels-last no more.
void share_with_outputs(const ir::Graph& graph, ValueTable& values);

// After every value has its storage. Drops what a call could not read; a kernel that cannot drops more later.
void choose_layouts(const ir::Graph& graph, ValueTable& values, const Epilogues& epilogues, const Libraries& libraries);

}  // namespace lazuli::lowering
