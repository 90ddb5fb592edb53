// Gradients of a convolution whose windows tile the input (a vision transformer's patch embedding): a rearrangement
// and one matrix product. oneDNN has no implementation for such large strides that comes near.
#pragma once
#include "lowering/libraries/primitive.h"

namespace lazuli::lowering {

// Null where it does not apply.
std::unique_ptr<LibraryCall> make_patch_convolution(const onednn::Convolution& c, Effort effort);

}  // namespace lazuli::lowering
