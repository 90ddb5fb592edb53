// A product of strided operands as a BLAS wants it: column-major matrices, each perhaps transposed, in batches of equal
// steps. Only arithmetic on sizes and strides, so that it is tested without a GPU.
#pragma once
#include <optional>
#include <string>
#include <vector>
#include "lowering/libraries/library.h"

namespace lazuli::lowering {

struct BlasMatrix {
  ir::Size rows = 0, columns = 0;  // as stored, column after column
  ir::Size leading = 0;            // elements from one column to the next
  bool transposed = false;         // the product reads it so
  ir::Size batch_step = 0;         // elements
};

// d = a x b + c, with d of m x n: `batches` times, and that for every index of `outer`. c is d where nothing is added.
struct BlasProduct {
  ir::Size m = 1, n = 1, k = 1, batches = 1;
  BlasMatrix a, b, c, d;
  // a is the caller's second operand and b the first: a row-major result is the column-major one of the transposed
  // product.
  bool swapped = false;
  struct Outer {
    ir::Size size = 1, a = 0, b = 0, c = 0, d = 0;
  };
  std::vector<Outer> outer;
};

// Whether an operand is read where it lies. Its last two dimensions need one of step 1 and no element read twice;
// any other must be copied first. Leading dimensions may step as they like, by 0 too.
bool blas_reads(const Layout& operand);
// Whether a result is written where it lies, with an addend of the same shape (or null). A bias along the last
// dimension needs results that are contiguous along it.
bool blas_writes(const Layout& out, const Layout* addend, bool bias);

// Nothing where one of the above does not hold. No dimension may be empty.
std::optional<BlasProduct> blas_product(const Layout& a, const Layout& b, const Layout& out, const Layout* addend,
                                        bool bias);

std::string describe(const BlasProduct& p);  // sizes in the caller's order, steps only where they are odd

}  // namespace lazuli::lowering
