// Our own convolutions of 3 x 3 taps by Winograd's minimal filtering, F(2 x 2, 3 x 3): 16 products in place of 36 for
// each four outputs (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015). Its sums have a ninth
// of the terms, so its results are at least as close to the exact ones as those of a plain sum. An infinity among a
// patch's numbers would become nan: outputs that are not finite are computed anew, by plain sums.
#pragma once
#include "lowering/libraries/primitive.h"

namespace lazuli::lowering {

// Whether it serves a forward convolution of these operands, and is faster than plain sums: one group, float32, steps
// of one, channels in whole vectors, and so many outputs that reading transformed weights pays.
bool is_for_winograd(const onednn::Convolution& c);

// Of x the channels lie side by side; y is written dense channels-last, and w is read as pack_for_winograd packs it.
// The bits do not depend on the number of threads.
std::unique_ptr<LibraryCall> make_winograd(const onednn::Convolution& c, std::span<const PostOp> post_ops);
// Packs w, of any strides. The call is not in what is returned.
PackedCall pack_for_winograd(const onednn::Convolution& c);

}  // namespace lazuli::lowering
