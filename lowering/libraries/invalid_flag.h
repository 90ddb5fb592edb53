// What the processor notes of each thread: that an operation met numbers without a meaning for it, such as a maximum or
// a comparison of nan, quiet ones too (the invalid flag of MXCSR: Intel 64 and IA-32 Architectures Software Developer's
// Manual, volume 1, 11.5.2.1). The flag stays until somebody clears it.
#pragma once

namespace lazuli::lowering {

// Of the calling thread and the workers that help it.
bool is_invalid_raised();
void clear_invalid();

}  // namespace lazuli::lowering
