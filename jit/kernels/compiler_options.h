// Settings of LLVM's code generator that are the same for every target of this process.
#pragma once

namespace lazuli::jit {

// Thread-safe, and before any code is generated.
void leave_out_slow_passes();

}  // namespace lazuli::jit
