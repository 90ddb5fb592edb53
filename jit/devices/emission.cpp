#include "jit/devices/emission.h"
#include "jit/devices/cuda/emission.h"

namespace lazuli::jit {

void emit_for_absent_devices(const ir::Graph& graph, const CompileOptions& options) {
  cuda::emit_for_gpu(graph, options);
}

}  // namespace lazuli::jit
