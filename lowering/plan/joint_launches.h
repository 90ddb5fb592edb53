// Horizontal fusion: kernel steps of the same nest that wait for nothing of each other run as one launch, over other
// memory each. What an optimizer does to two hundred parameters is one launch, and so are small kernels of a backward
// pass.
#pragma once
#include <vector>
#include "lowering/plan/plan.h"

namespace lazuli::lowering {

// Reorders a plan's steps, whose blocks are bound but have no places yet, so that members of a launch stand side by
// side, and marks them (PlanStep::joined). Steps that are no kernels keep their order. A kernel moves up when what it
// makes does not raise the peak of memory, and down when nothing large waits for it to be let go. Sizes may have
// expressions (ir/size.h): how much memory there is then goes by the numbers of now.
void group_steps(Plan& plan);

}  // namespace lazuli::lowering
