// Evaluates scalar programs, one element at a time.
#pragma once
#include "ir/scalar.h"

namespace lazuli::ir {

// A number of whatever type its scalar node says.
struct Cell {
  uint64_t bits = 0;
};
template <class T>
T get(Cell c) {
  T x;
  __builtin_memcpy(&x, &c.bits, sizeof x);
  return x;
}
template <class T>
Cell cell(T x) {
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &x, sizeof x);
  return {bits};
}

// Evaluates nodes 0 to `result`; `cells` has one place per node, and arguments are read from `arguments` by index.
Cell evaluate(const ScalarGraph& graph, uint16_t result, std::span<const Cell> arguments, std::vector<Cell>& cells);

}  // namespace lazuli::ir
