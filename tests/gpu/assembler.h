// PTX to machine code without a GPU: ptxas if it is on the PATH, else nvJitLink if it can be loaded.
#pragma once
#include <string>

namespace lazuli::testing {

struct Assembled {
  bool ok = false;
  int registers = -1, spill_bytes = -1, shared_bytes = -1;  // -1: not told
  double ms = 0;
  std::string log;
};

bool has_assembler(std::string& name);  // or why there is none
Assembled assemble(const std::string& ptx, int capability);

}  // namespace lazuli::testing
