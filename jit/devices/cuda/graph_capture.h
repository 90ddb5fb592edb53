// Kernel launches, one by one and captured in a graph of the driver.
#pragma once
#include <functional>
#include <memory>
#include <vector>
#include "jit/device.h"
#include "jit/devices/cuda/driver.h"
#include "jit/run/arguments.h"

namespace lazuli::jit::cuda {

struct Launch {
  Function function;
  uint32_t grid[3], threads;
  Arguments arguments;
};

// Enqueues it; `arguments` are filled. Where this thread captures the stream, the graph knows the launch from then on.
void enqueue(const Context& context, Launch& launch, void* stream);

// What `work` puts into `stream`, as a graph in which only the launches' arguments change. They outlive it. Throws what
// `work` throws, or std::runtime_error for what cannot be captured.
std::unique_ptr<CapturedLaunches> capture(const Context& context, void* stream, const std::function<void()>& work);

std::unique_ptr<Mark> mark(const Context& context, void* stream);

}  // namespace lazuli::jit::cuda
