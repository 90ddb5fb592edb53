// What the derivative of an application reads: found by taking it once, symbolically.
#pragma once
#include "ir/builder.h"

namespace lazuli::ir {

struct Reads {
  uint32_t operands = 0;  // bit i: the value of operand i
  uint32_t results = 0;   // bit i: the value of result i
  bool exists = false;    // false: the row has no derivative for these operands
};

// What the row's rule reads, for the cotangents of the operands that `needs` masks, whichever results' cotangents are
// present. Types matter only as far as the rule asks them; answers are kept, by row, needs, element types and, where a
// rule may depend on them, shapes and attributes. At most 32 operands. Thread-safe.
Reads reads_of_derivative(Op op, std::span<const Type* const> operands, std::span<const Type* const> results,
                          const Attrs& attrs, uint32_t needs);

// Whether the answer depends on neither shapes nor attributes: the rules of such rows ask shapes only to fit cotangents
// to them.
bool reads_alike_for_all_shapes(Op op);

}  // namespace lazuli::ir
