// Padding by negative amounts crops. Fusion writes padding as stores into a larger result and cropping as a view, so a
// row that does both becomes the two.
#pragma once
#include "ir/graph.h"

namespace lazuli::lowering {

// `graph` itself where nothing crops.
ir::Graph crop_pads(ir::Graph graph);

}  // namespace lazuli::lowering
