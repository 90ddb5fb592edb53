#include "tests/gpu/matmul/device.h"
#include <stdexcept>
#include "lowering/libraries/shared_library.h"

namespace lazuli::testing {
namespace {

using Address = unsigned long long;

struct Driver {
  lowering::SharedLibrary library{"libcuda.so.1"};
  int (*init)(unsigned);
  int (*device_get)(int*, int);
  int (*device_name)(char*, int, int);
  int (*retain_context)(void**, int);
  int (*set_context)(void*);
  int (*synchronize)();
  int (*allocate)(Address*, size_t);
  int (*release)(Address);
  int (*upload)(Address, const void*, size_t);
  int (*download)(void*, Address, size_t);
  int (*stream_create)(void**, unsigned);
  int (*begin_capture)(void*, int);
  int (*end_capture)(void*, void**);
  int (*instantiate)(void**, void*, unsigned long long);
  int (*launch)(void*, void*);
  int (*error_name)(int, const char**);
  int device = 0;
  void* context = nullptr;

  Driver() {
    library.find(init, "cuInit");
    library.find(device_get, "cuDeviceGet");
    library.find(device_name, "cuDeviceGetName");
    library.find(retain_context, "cuDevicePrimaryCtxRetain");
    library.find(set_context, "cuCtxSetCurrent");
    library.find(synchronize, "cuCtxSynchronize");
    library.find(allocate, "cuMemAlloc_v2");
    library.find(release, "cuMemFree_v2");
    library.find(upload, "cuMemcpyHtoD_v2");
    library.find(download, "cuMemcpyDtoH_v2");
    library.find(stream_create, "cuStreamCreate");
    library.find(begin_capture, "cuStreamBeginCapture_v2");
    library.find(end_capture, "cuStreamEndCapture");
    library.find(instantiate, "cuGraphInstantiateWithFlags");
    library.find(launch, "cuGraphLaunch");
    library.find(error_name, "cuGetErrorName");
    check(init(0), "cuInit");
    check(device_get(&device, 0), "cuDeviceGet");
    check(retain_context(&context, device), "cuDevicePrimaryCtxRetain");
    check(set_context(context), "cuCtxSetCurrent");
  }
  void check(int result, const char* what) const {
    if (!result) return;
    const char* name = "?";
    error_name(result, &name);
    throw std::runtime_error(std::string(name) + " from " + what);
  }
};

// Null, with the reason, where there is no driver or no device.
const Driver* driver(std::string* reason = nullptr) {
  static std::string why;
  static const Driver* const found = []() -> const Driver* {
    try {
      return new Driver;
    } catch (const std::exception& e) {
      why = e.what();
      return nullptr;
    }
  }();
  if (reason) *reason = why;
  return found;
}

constexpr unsigned kNonBlocking = 1;  // not ordered with the default stream
constexpr int kThreadLocalCapture = 1;

Address address(const void* p) { return reinterpret_cast<Address>(p); }

}  // namespace

Device::Device() : stream_(make_stream()) {}

const Device* Device::get() {
  static const Device* const device = driver() ? new Device : nullptr;
  return device;
}

std::string Device::why_not() {
  std::string reason;
  driver(&reason);
  return reason;
}

std::string Device::name() const {
  char text[256];
  driver()->check(driver()->device_name(text, sizeof text, driver()->device), "cuDeviceGetName");
  return text;
}

void Device::make_current() const { driver()->check(driver()->set_context(driver()->context), "cuCtxSetCurrent"); }

void* Device::make_stream() const {
  void* stream = nullptr;
  driver()->check(driver()->stream_create(&stream, kNonBlocking), "cuStreamCreate");
  return stream;
}

void Device::synchronize() const { driver()->check(driver()->synchronize(), "cuCtxSynchronize"); }

void* Device::allocate(size_t bytes) const {
  Address memory = 0;
  driver()->check(driver()->allocate(&memory, bytes), "cuMemAlloc");
  return reinterpret_cast<void*>(memory);
}

void Device::release(void* memory) const { driver()->release(address(memory)); }

void Device::upload(void* to, const void* from, size_t bytes) const {
  driver()->check(driver()->upload(address(to), from, bytes), "cuMemcpyHtoD");
  synchronize();  // the copy may still be under way, and our stream does not wait for it
}

void Device::download(void* to, const void* from, size_t bytes) const {
  driver()->check(driver()->download(to, address(from), bytes), "cuMemcpyDtoH");
}

void Device::begin_capture(void* stream) const {
  driver()->check(driver()->begin_capture(stream, kThreadLocalCapture), "cuStreamBeginCapture");
}

void Device::end_capture_and_launch(void* stream) const {
  void *graph = nullptr, *executable = nullptr;
  driver()->check(driver()->end_capture(stream, &graph), "cuStreamEndCapture");
  driver()->check(driver()->instantiate(&executable, graph, 0), "cuGraphInstantiate");
  driver()->check(driver()->launch(executable, stream), "cuGraphLaunch");
}

}  // namespace lazuli::testing
