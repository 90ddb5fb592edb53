// Questions of the tests in tests/torch_internals, which ask through ctypes what torch's C++ holds. Nothing else does.
#include <cstdint>
#include "backend/torch_internals/imported_functions.h"

#define LAZULI_QUESTION extern "C" [[gnu::visibility("default")]]

namespace lazuli::backend {
// The function that libtorch_cpu calls by that name; null: it has no entry that could be replaced.
LAZULI_QUESTION void* lazuli_imported_function(const char* symbol) {
  void** entry = find_import(symbol);
  return entry ? *entry : nullptr;
}

}  // namespace lazuli::backend
