// Which accesses of a nest lie beside each other, two elements apart from lane to lane (Access::after): the parts of
// complex numbers. Targets walk such memory by whole vectors.
#pragma once
#include "lowering/nest/loops.h"

namespace lazuli::lowering {

void find_pairs(Loops& loops);

}  // namespace lazuli::lowering
