// Calls of this package's Python, where torch offers something in Python alone.
#pragma once

namespace lazuli::lazy {

// Calls `module.function(argument)`, and waits for the interpreter lock before. Throws std::runtime_error with the
// Python error, or if no interpreter runs (any more).
void call_python(const char* module, const char* function, long argument);

}  // namespace lazuli::lazy
