// Torch knows one accelerator in a process, and takes a registered PrivateUse1 device for it, whatever else is there.
// Its autograd engine then finds no stream for a node on a CUDA device and stops ("opt_ready_stream &&
// opt_parent_stream", pytorch/pytorch#161129): to install a device would break every backward on CUDA tensors, whether
// it is used or not.
//
// Lazuli needs no streams of the engine's, since recording has an order of its own. So where a process uses a GPU,
// torch is told what is true: that GPU is the accelerator, and lazuli is none.
#include <atomic>
#include <ATen/DeviceAccelerator.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceType.h>
#include "backend/torch_internals/imported_functions.h"

namespace lazuli::backend {
namespace {

// Whether there is a GPU that this process has used. The question may not be its first use: a child that is forked
// could not use the GPU any more. Nodes on CUDA tensors come after it.
bool uses_gpu() {
  static std::atomic<bool> uses = false;
  if (uses) return true;
  const auto& cuda = at::detail::getCUDAHooks();
  if (!cuda.hasCUDART()) return false;
  auto* allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(c10::kCUDA));
  if (allocator && !allocator->initialized()) return false;
  return uses = cuda.deviceCount() > 0;
}

bool is_privateuse1_backend_registered() { return !uses_gpu() && c10::is_privateuse1_backend_registered(); }
bool is_accelerator(c10::DeviceType type) {
  return !(type == c10::kPrivateUse1 && uses_gpu()) && at::accelerator::isAccelerator(type);
}

const bool replaced = replace_import(kIsPrivateUse1BackendRegistered, &is_privateuse1_backend_registered) &&
                      replace_import(kIsAccelerator, &is_accelerator);

}  // namespace
}  // namespace lazuli::backend
