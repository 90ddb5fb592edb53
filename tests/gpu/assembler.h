// PTX to machine code without a GPU: as the plugin does, through nvJitLink, or with ptxas where only that is there.
#pragma once
#include <span>
#include <string>
#include <vector>

namespace lazuli::testing {

struct Assembled {
  bool ok = false;
  int registers = -1, spill_bytes = -1, shared_bytes = -1;  // -1: not told
  double ms = 0;                                            // that it took, perhaps in an earlier run of the tests
  std::string log;
};

bool has_assembler(std::string& name);  // or why there is none
// Thread-safe. What went well is remembered in the cache folder: few kernels change from one run to the next.
Assembled assemble(const std::string& ptx, int capability);
// Kernels of different names, put together: starting takes longer than a small kernel does.
std::vector<Assembled> assemble(std::span<const std::string> ptx, int capability);

// The PTX of a kernel for kOverlapping or more, as it is for another capability.
std::string for_capability(std::string ptx, int capability);

}  // namespace lazuli::testing
