// Torch knows one accelerator in a process, and takes a registered PrivateUse1 device for it, whatever else is there.
// Its autograd engine then finds no stream for a node on a CUDA device and stops ("opt_ready_stream &&
// opt_parent_stream", pytorch/pytorch#161129): to install a device would break every backward on CUDA tensors, whether
// it is used or not.
//
// Lazuli needs no streams of the engine's, since recording has an order of its own. So where torch has a GPU, the
// engine is told what is true: that GPU is the accelerator, and lazuli is none.
#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/DeviceType.h>
#include "backend/torch_internals/imported_functions.h"

namespace lazuli::backend {
namespace {

bool torch_has_gpu() {
  static const bool has = at::hasCUDA() && at::detail::getCUDAHooks().deviceCount() > 0;
  return has;
}

bool is_privateuse1_backend_registered() { return !torch_has_gpu() && c10::is_privateuse1_backend_registered(); }
bool is_accelerator(c10::DeviceType type) {
  return !(type == c10::kPrivateUse1 && torch_has_gpu()) && at::accelerator::isAccelerator(type);
}

const bool replaced = replace_import(kIsPrivateUse1BackendRegistered, &is_privateuse1_backend_registered) &&
                      replace_import(kIsAccelerator, &is_accelerator);

}  // namespace
}  // namespace lazuli::backend
