// Graphs that end alike, and cutting a graph before such an end. The steps of a training loop do, though each batch has
// its own sizes: what the optimizer computes does not depend on them.
#pragma once
#include "ir/graph.h"

namespace lazuli::ir {

// How many nodes are no leaves.
size_t applications(const Graph& graph);

// How many of the last nodes that are no leaves compute the same in both graphs: the same applications to values of the
// same types, which hang together in the same way, and whose results are outputs in both or in neither.
size_t common_suffix(const Graph& a, const Graph& b);

// One of two graphs that compute, one after the other, what the whole did. Values that cross a border have numbers: the
// whole's inputs, then its outputs, then what only passes from the first part to the second.
struct Part {
  Graph graph;
  std::vector<uint32_t> inputs;   // by the part's input: the value's number
  std::vector<bool> last;         // by the part's input: whether nobody needs the value afterwards
  std::vector<uint32_t> outputs;  // by the part's output: the value's number
  std::vector<uint32_t> scalars;  // by the part's run-time number: which of the whole's it is
};
struct Parts {
  Part first, second;
  uint32_t values = 0;  // numbers
};
// The second part gets the last `count` nodes that are no leaves; leaves go wherever they are read. Of the whole's donated
// inputs each part has those that are not read after it, and the second also what is handed over and no output.
Parts split(const Graph& graph, size_t count);

}  // namespace lazuli::ir
