// Evaluates scalar programs, one element at a time.
#pragma once
#include "ir/scalar.h"

namespace lazuli::ir {

// A number of whatever type its scalar node says.
union Cell {
  uint64_t bits = 0;
  double f64;
  float f32;
};
template <class T>
T get(Cell c) {
  T x;
  __builtin_memcpy(&x, &c, sizeof x);
  return x;
}
template <class T>
Cell cell(T x) {
  Cell c;
  __builtin_memcpy(&c, &x, sizeof x);
  return c;
}

// Evaluates nodes 0 to `result`; `cells` has one place per node, and arguments are read from `arguments` by index.
Cell evaluate(const ScalarGraph& graph, uint16_t result, std::span<const Cell> arguments, std::vector<Cell>& cells);

// Philox4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3), counter {index, offset}, key seed: the
// first word, or the first two for 53 bits.
uint64_t philox(uint64_t seed, uint64_t offset, uint64_t index);

}  // namespace lazuli::ir
