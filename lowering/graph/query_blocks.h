// Attention that a program writes out, softmax(q k^T + mask) v, makes a score of each query and each key, several
// times: scaled, masked, exponentials, probabilities; and backward as many gradients. Each query needs its own scores
// alone. So all of that is computed for a block of queries at a time, whatever it is: between the products it may be
// anything that keeps queries apart, and masks that are computed from positions are computed block by block, too.
// Backward computes the scores anew rather than keeping them. Memory then grows with the number of keys, not with their
// product with the number of queries: M. Rabe and C. Staats, Self-attention does not need O(n^2) memory, 2021.
#pragma once
#include "ir/graph.h"

namespace lazuli::lowering {

class Libraries;

ir::Graph query_blocks(const ir::Graph& graph, const Libraries& libraries);
// Whether the node is a product of queries and keys that is worth it.
bool makes_many_scores(const ir::Node& node, const Libraries& libraries);

}  // namespace lazuli::lowering
