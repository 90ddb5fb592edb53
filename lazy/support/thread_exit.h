// Calls at a thread's end, for what threads keep in variables that are to be reached fast: those have no destructor,
// which every access would pay for.
#pragma once

namespace lazuli::lazy {

// Calls `f` when this thread ends. Not from within such a call.
void at_thread_exit(void (*f)());

}  // namespace lazuli::lazy
