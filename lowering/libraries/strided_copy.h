// Copies one strided operand to another of the same shape, converting the element type: the way into and out of a
// library's scratch when the library does not take the strides (or the type) that the planner has.
#pragma once
#include "lowering/libraries/library.h"

namespace lazuli::lowering {

// `to` must not overlap itself or `from`. Uses the threads of the pool.
void strided_copy(const Layout& from, const void* source, const Layout& to, void* target);

// Row-major strides for `shape`, those of one element set to what a dense tensor would have.
Layout dense_layout(ir::DType dtype, const ir::Dims& shape);
// Dense with the last dimension outermost but for the first: [N, spatial..., C] seen as [N, C, spatial...].
Layout channels_last_layout(ir::DType dtype, const ir::Dims& shape);
// `layout` with the strides of its one-element dimensions made those of a dense tensor, so that equal addresses
// give equal descriptions.
Layout with_canonical_strides(Layout layout);
// Whether it is dense, whatever the strides of dimensions of one element.
bool is_dense(const Layout& layout);
// Bytes from the first to one past the last element.
size_t extent_bytes(const Layout& layout);
inline size_t round_up_64(size_t bytes) { return (bytes + 63) & ~size_t{63}; }

}  // namespace lazuli::lowering
