// The little that a library call asks the CUDA driver: which context is current, whether a stream is being captured,
// zeros, and how long its work takes. The driver is found at run time, and its handles stay opaque here.
#pragma once
#include <cstddef>

namespace lazuli::lowering {

// Throws where this thread has none; whoever runs a call makes the device's context current first.
void* current_cuda_context();
bool has_cuda_context();  // false, too, where there is no driver
bool is_capturing(void* stream);
void enqueue_zeros(void* memory, size_t bytes, void* stream);

class StreamTimer {
 public:
  explicit StreamTimer(void* stream);
  ~StreamTimer();
  StreamTimer(const StreamTimer&) = delete;
  StreamTimer& operator=(const StreamTimer&) = delete;
  void start();
  float stop();  // milliseconds of the stream since start(); waits for them

 private:
  void *stream_, *begin_ = nullptr, *end_ = nullptr;
};

}  // namespace lazuli::lowering
