// Functions that torch's own code calls in other libraries, replaced for libtorch_cpu alone.
//
// They are calls between shared libraries, so libtorch_cpu has an entry for each in its table of imported functions. An
// entry can be pointed elsewhere; all other callers of the function stay with torch's. Torch, its autograd engine too,
// asks two functions which device is the process's accelerator, and offers no way to answer for it. A third one runs a
// function on OpenMP's threads, and nothing else says that they are awake.
#pragma once
#include <string_view>

namespace lazuli::backend {

// As the compiler mangles the functions' names.
inline constexpr std::string_view kIsPrivateUse1BackendRegistered = "_ZN3c1033is_privateuse1_backend_registeredEv";
inline constexpr std::string_view kIsAccelerator = "_ZN2at11accelerator13isAcceleratorEN3c1010DeviceTypeE";
// void(void (*function)(void*), void* data, unsigned threads, unsigned flags); with 0 threads all of them.
inline constexpr std::string_view kRunOnOpenmp = "GOMP_parallel";

// The entry of libtorch_cpu's table. Null where the table does not look as expected (another torch, another linker), or
// may not be written.
void** find_import(std::string_view symbol);
// Does nothing without an entry: then torch stays as it is.
template <class Function>
bool replace_import(std::string_view symbol, Function* by) {
  void** entry = find_import(symbol);
  if (entry) *entry = reinterpret_cast<void*>(by);
  return entry;
}

}  // namespace lazuli::backend
