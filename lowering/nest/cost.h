// What a primitive costs beside an addition, roughly.
#pragma once
#include "ir/op.h"

namespace lazuli::lowering {

constexpr unsigned primitive_cost(ir::Prim prim) {
  using ir::Prim;
  if (prim >= Prim::exp && prim <= Prim::erfc) return 20;
  switch (prim) {
    case Prim::pow:
    case Prim::atan2:
    case Prim::random:
    case Prim::floordiv:
    case Prim::mod:
    case Prim::fmod:
      return 60;
    default:
      return 1;
  }
}

// Worth to be kept rather than computed again.
constexpr bool is_costly(ir::Prim prim) { return primitive_cost(prim) >= 20; }

}  // namespace lazuli::lowering
