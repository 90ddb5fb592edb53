// lazuli_gpu_tests --link: machine code of all kernels that the tests have left in a folder
// (jit/devices/cuda/emission.h).
#pragma once
#include <string>

namespace lazuli::testing {

// Names the kernels that fail, spill most and use most registers; the last line is "N kernels linked for sm_80 and
// sm_90, ...", which goes to `folder`/report too, as "linked failed". 0 unless one failed; 77 when nothing here can
// link.
int link_folder(const std::string& folder);

}  // namespace lazuli::testing
