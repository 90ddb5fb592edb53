// Some rows times the transpose of a matrix whose numbers have 4 bits, two of them in a byte, and a scale and a zero
// for each group of a row: what torch's _weight_int4pack_mm_for_cpu computes. The numbers become floats in registers,
// for up to four rows at a time.
#pragma once
#include <memory>
#include "lowering/libraries/library.h"

namespace lazuli::lowering {

struct Int4Params {
  int64_t group, block;
  bool paired;
};
// The row int4_mm (ir/ops/contraction.def). Throws ir::TypeError where the operands do not fit.
std::unique_ptr<LibraryCall> make_int4_mm(const Layout& x, const Layout& weights, const Layout& scales,
                                          const Layout& out, const Int4Params& params);

}  // namespace lazuli::lowering
