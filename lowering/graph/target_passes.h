// Passes that ask what a target likes. They run after those of ir/passes/, under the same runner.
#pragma once
#include <vector>
#include "ir/passes/pass.h"

namespace lazuli::lowering {

class Libraries;

// In their order (target_passes.def). `libraries` must outlive them.
std::vector<ir::Pass> target_passes(const Libraries& libraries);

// All passes: those of every graph, then the target's.
std::vector<ir::Pass> all_passes(const Libraries& libraries);

}  // namespace lazuli::lowering
