// Questions of the tests in tests/torch_internals, which ask through ctypes what torch's C++ holds. Nothing else does.
#include <cstdint>
#include <torch/csrc/autograd/variable.h>
#include "backend/torch_internals/imported_functions.h"
#include "backend/torch_internals/own_history.h"

#define LAZULI_QUESTION extern "C" [[gnu::visibility("default")]]

namespace lazuli::backend {
// The function that libtorch_cpu calls by that name; null: it has no entry that could be replaced.
LAZULI_QUESTION void* lazuli_imported_function(const char* symbol) {
  void** entry = find_import(symbol);
  return entry ? *entry : nullptr;
}

// The field as it is, with the mark in it.
LAZULI_QUESTION uint32_t lazuli_output_number(c10::TensorImpl* t) { return meta_of(*t)->output_nr_; }
LAZULI_QUESTION void lazuli_set_output_number(c10::TensorImpl* t, uint32_t number) { meta_of(*t)->output_nr_ = number; }

}  // namespace lazuli::backend
