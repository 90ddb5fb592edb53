// Random valid graphs over the op table, for every test that compares two ways of computing the same: passes on and
// off, compiled and interpreted. Deterministic in the seed. Values are interpreted as the graph grows, so that on
// random_inputs(graph, seed) most of them stay finite and small: NaN would hide every difference.
#pragma once
#include "ir/interpret.h"

namespace lazuli::ir::testing {

struct FuzzOptions {
  uint32_t seed = 0;
  int nodes = 20;        // applications to aim at
  bool discrete = true;  // rows that jump (floor, comparisons of floats, argmax): rounding differences show there
  bool composites = true;
  bool contractions = true;
  bool narrow = true;  // bf16 among the element types
  // Every element type, every conversion that has a defined result, and dimensions of no elements. Only what comes out
  // without rounding is used further, or is a conversion, so that whatever order passes compute in gives the same bits.
  bool exact = false;
};

Graph random_graph(const FuzzOptions& options);
std::vector<Tensor> random_inputs(const Graph& graph, uint32_t seed);  // the same seed as the graph's
// How many graphs a test takes: LAZULI_FUZZ_SEEDS, where that is set.
uint32_t seeds(uint32_t usual);

}  // namespace lazuli::ir::testing
