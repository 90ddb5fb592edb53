#include "lazy/failure.h"
#include <c10/util/Exception.h>

namespace lazuli::lazy {

void Failure::raise() const {
  TORCH_CHECK_WITH(OutOfMemoryError, !out_of_memory, text);
  TORCH_CHECK(false, text);
}

}  // namespace lazuli::lazy
