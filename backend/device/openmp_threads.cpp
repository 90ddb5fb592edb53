// Torch's kernels share their work out on OpenMP's threads, which then stay awake for some milliseconds, each on a core
// that the crew's would need. A program may call such kernels without us between two steps, on batches that it makes on
// the CPU. So libtorch_cpu's calls of OpenMP go through here, and the crew learns of them.
#include "backend/torch_internals/imported_functions.h"
#include "lowering/threads/crew.h"

extern "C" void GOMP_parallel(void (*function)(void*), void* data, unsigned threads, unsigned flags);

namespace lazuli::backend {
namespace {

void run_on_openmp(void (*function)(void*), void* data, unsigned threads, unsigned flags) {
  if (threads == 1) return GOMP_parallel(function, data, threads, flags);
  lowering::openmp_has_worked();  // so that ours make room for theirs
  GOMP_parallel(function, data, threads, flags);
  lowering::openmp_has_worked();
}

const bool is_passed_through = replace_import(kRunOnOpenmp, &run_on_openmp);

}  // namespace
}  // namespace lazuli::backend
