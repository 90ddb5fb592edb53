#include "tests/gpu/gpu.h"

#include <dlfcn.h>

#include <stdexcept>

namespace lazuli::testing {
namespace {

void* library() {
  static void* handle = dlopen("libcuda.so.1", RTLD_NOW);
  return handle;
}

template <class... Args>
int driver(const char* name, Args... args) {
  auto f = reinterpret_cast<int (*)(Args...)>(dlsym(library(), name));
  return f ? f(args...) : -1;
}

template <class... Args>
void check(const char* name, Args... args) {
  const int status = driver(name, args...);
  if (!status) return;
  const char* text = nullptr;
  driver("cuGetErrorString", status, &text);
  throw std::runtime_error(std::string(name) + ": " + (text ? text : std::to_string(status)));
}

}  // namespace

Gpu* Gpu::find(std::string& why_not) {
  static Gpu gpu;
  static const std::string problem = []() -> std::string {
    if (!library()) return "no libcuda.so.1";
    if (const int status = driver("cuInit", 0u)) return "cuInit: " + std::to_string(status);
    int device = 0;
    void* context = nullptr;
    if (driver("cuDeviceGet", &device, 0)) return "no device";
    int major = 0, minor = 0;
    driver("cuDeviceGetAttribute", &major, 75, device);
    driver("cuDeviceGetAttribute", &minor, 76, device);
    driver("cuDeviceGetAttribute", &gpu.multiprocessors_, 16, device);
    gpu.capability_ = 10 * major + minor;
    if (gpu.capability_ < 80) return "its capability is " + std::to_string(gpu.capability_);
    if (driver("cuDevicePrimaryCtxRetain", &context, device) || driver("cuCtxSetCurrent", context)) return "no context";
    return "";
  }();
  why_not = problem;
  return problem.empty() ? &gpu : nullptr;
}

uint64_t Gpu::allocate(size_t bytes) {
  uint64_t p = 0;
  check("cuMemAlloc_v2", &p, bytes ? bytes : 1);
  return p;
}
void Gpu::free(uint64_t memory) { check("cuMemFree_v2", memory); }
void Gpu::upload(uint64_t to, const void* from, size_t bytes) {
  if (bytes) check("cuMemcpyHtoD_v2", to, from, bytes);
}
void Gpu::download(void* to, uint64_t from, size_t bytes) {
  if (bytes) check("cuMemcpyDtoH_v2", to, from, bytes);
}
void Gpu::copy(uint64_t to, uint64_t from, size_t bytes) {
  check("cuMemcpyDtoDAsync_v2", to, from, bytes, (void*)nullptr);
}

Gpu::Function Gpu::load(const std::string& ptx, const std::string& symbol) {
  constexpr int kErrorLog = 5, kErrorLogSize = 6;
  std::vector<char> log(8192);
  int options[] = {kErrorLog, kErrorLogSize};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
  void *module = nullptr, *function = nullptr;
  if (driver("cuModuleLoadDataEx", &module, static_cast<const void*>(ptx.c_str()), 2u, static_cast<int*>(options),
             static_cast<void**>(values)))
    throw std::runtime_error("PTX is refused: " + std::string(log.data()));
  check("cuModuleGetFunction", &function, module, symbol.c_str());
  return function;
}

void Gpu::launch(Function f, const uint32_t grid[3], uint32_t threads, std::vector<int64_t> args) {
  void* params[] = {args.data()};
  check("cuLaunchKernel", f, grid[0], grid[1], grid[2], threads, 1u, 1u, 0u, static_cast<void*>(nullptr),
        static_cast<void**>(params), static_cast<void**>(nullptr));
}

void Gpu::synchronize() { check("cuCtxSynchronize"); }

double Gpu::microseconds(const std::function<void()>& work) {
  void *start = nullptr, *stop = nullptr, *stream = nullptr;
  check("cuEventCreate", &start, 0u);
  check("cuEventCreate", &stop, 0u);
  check("cuEventRecord", start, stream);
  work();
  check("cuEventRecord", stop, stream);
  check("cuEventSynchronize", stop);
  float ms = 0;
  check("cuEventElapsedTime", &ms, start, stop);
  driver("cuEventDestroy_v2", start);
  driver("cuEventDestroy_v2", stop);
  return ms * 1e3;
}

}  // namespace lazuli::testing
