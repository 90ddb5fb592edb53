// From PTX to machine code, on any thread and without touching the GPU: cuModuleLoadData would serialize all threads
// and stall launches meanwhile. Uses nvJitLink, which torch's CUDA packages bring.
#pragma once
#include <string>
#include <vector>

namespace lazuli::jit::cuda {

struct Linked {
  std::vector<char> cubin;
  std::string log;  // registers and spills, as ptxas reports them
};

// Throws std::runtime_error with the linker's log. `capability`: 90 for sm_90.
Linked link(const std::string& ptx, int capability);

// Names the linker's version, for keys of stored cubins. Throws when there is no linker.
std::string linker_version();

}  // namespace lazuli::jit::cuda
