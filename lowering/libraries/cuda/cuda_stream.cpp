#include "lowering/libraries/cuda/cuda_stream.h"
#include <stdexcept>
#include "lowering/libraries/shared_library.h"

namespace lazuli::lowering {
namespace {

struct Driver {
  SharedLibrary library{"libcuda.so.1"};
  int (*context)(void**);
  int (*is_capturing)(void*, int*);
  int (*set_bytes)(unsigned long long, unsigned char, size_t, void*);
  int (*event_create)(void**, unsigned);
  int (*event_destroy)(void*);
  int (*event_record)(void*, void*);
  int (*event_synchronize)(void*);
  int (*elapsed)(float*, void*, void*);

  Driver() {
    library.find(context, "cuCtxGetCurrent");
    library.find(is_capturing, "cuStreamIsCapturing");
    library.find(set_bytes, "cuMemsetD8Async");
    library.find(event_create, "cuEventCreate");
    library.find(event_destroy, "cuEventDestroy_v2");
    library.find(event_record, "cuEventRecord");
    library.find(event_synchronize, "cuEventSynchronize");
    library.find(elapsed, "cuEventElapsedTime");
  }
};

const Driver& driver() {
  static const Driver d;
  return d;
}

void check(int result, const char* what) {
  if (result) throw std::runtime_error(std::string("CUDA error ") + std::to_string(result) + " from " + what);
}

}  // namespace

void* current_cuda_context() {
  void* context = nullptr;
  check(driver().context(&context), "cuCtxGetCurrent");
  if (!context) throw std::runtime_error("a GPU library call ran on a thread that has no CUDA context");
  return context;
}

bool has_cuda_context() {
  static const bool has_driver = [] {
    try {
      driver();
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }();
  void* context = nullptr;
  return has_driver && driver().context(&context) == 0 && context;
}

bool is_capturing(void* stream) {
  int status = 0;
  check(driver().is_capturing(stream, &status), "cuStreamIsCapturing");
  return status != 0;
}

void enqueue_zeros(void* memory, size_t bytes, void* stream) {
  check(driver().set_bytes(reinterpret_cast<unsigned long long>(memory), 0, bytes, stream), "cuMemsetD8Async");
}

StreamTimer::StreamTimer(void* stream) : stream_(stream) {
  check(driver().event_create(&begin_, 0), "cuEventCreate");
  check(driver().event_create(&end_, 0), "cuEventCreate");
}

StreamTimer::~StreamTimer() {
  for (void* event : {begin_, end_})
    if (event) driver().event_destroy(event);
}

void StreamTimer::start() { check(driver().event_record(begin_, stream_), "cuEventRecord"); }

float StreamTimer::stop() {
  check(driver().event_record(end_, stream_), "cuEventRecord");
  check(driver().event_synchronize(end_), "cuEventSynchronize");
  float ms = 0;
  check(driver().elapsed(&ms, begin_, end_), "cuEventElapsedTime");
  return ms;
}

}  // namespace lazuli::lowering
