#include "jit/devices/cuda/driver.h"
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include "jit/devices/cuda/ptx_compiler.h"
#include "lowering/libraries/shared_library.h"

namespace lazuli::jit::cuda {
namespace {

// The driver's C interface, of which these few functions keep their form from one version to the next. Handles are
// pointers.
using Result = int;

struct LaunchAttribute {  // CUlaunchAttribute
  int id;
  alignas(8) int value[16];
};
struct LaunchConfig {  // CUlaunchConfig
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  const LaunchAttribute* attributes;
  unsigned attribute_count;
};

struct KernelNodeParameters {  // CUDA_KERNEL_NODE_PARAMS_v2
  void* function;
  unsigned grid[3], block[3], shared_bytes;
  void** parameters;
  void** extra;
  void *kernel, *context;
};

struct Driver {
  Result (*init)(unsigned);
  Result (*device_get)(int*, int);
  Result (*device_attribute)(int*, int, int);
  Result (*retain_primary)(void**, int);
  Result (*set_current)(void*);
  Result (*load_module)(void**, const void*);
  Result (*find_function)(void**, void*, const char*);
  Result (*launch)(const LaunchConfig*, void*, void**, void**);
  Result (*copy)(uint64_t, uint64_t, size_t, void*);
  Result (*synchronize)(void*);
  Result (*map_host)(void**, size_t, unsigned);
  Result (*begin_capture)(void*, int);
  Result (*end_capture)(void*, void**);
  Result (*capture_info)(void*, int*, uint64_t*, void**, void* const**, const void**, size_t*);
  Result (*instantiate)(void**, void*, unsigned long long);
  Result (*set_kernel_node)(void*, void*, const KernelNodeParameters*);
  Result (*launch_graph)(void*, void*);
  Result (*destroy_graph)(void*);
  Result (*destroy_runnable)(void*);
  Result (*create_event)(void**, unsigned);
  Result (*record_event)(void*, void*);
  Result (*query_event)(void*);
  Result (*destroy_event)(void*);
  Result (*error_name)(Result, const char**);
  Result (*error_text)(Result, const char**);
};

const Driver& driver() {
  static const Driver loaded = [] {
    const lowering::SharedLibrary library("libcuda.so.1");
    Driver d{};
    library.find(d.init, "cuInit");
    library.find(d.device_get, "cuDeviceGet");
    library.find(d.device_attribute, "cuDeviceGetAttribute");
    library.find(d.retain_primary, "cuDevicePrimaryCtxRetain");
    library.find(d.set_current, "cuCtxSetCurrent");
    library.find(d.load_module, "cuModuleLoadData");
    library.find(d.find_function, "cuModuleGetFunction");
    library.find(d.launch, "cuLaunchKernelEx");
    library.find(d.copy, "cuMemcpyDtoDAsync_v2");
    library.find(d.synchronize, "cuStreamSynchronize");
    library.find(d.map_host, "cuMemHostAlloc");
    library.find(d.begin_capture, "cuStreamBeginCapture_v2");
    library.find(d.end_capture, "cuStreamEndCapture");
    library.find(d.capture_info, "cuStreamGetCaptureInfo_v3");
    library.find(d.instantiate, "cuGraphInstantiateWithFlags");
    library.find(d.set_kernel_node, "cuGraphExecKernelNodeSetParams_v2");
    library.find(d.launch_graph, "cuGraphLaunch");
    library.find(d.destroy_graph, "cuGraphDestroy");
    library.find(d.destroy_runnable, "cuGraphExecDestroy");
    library.find(d.create_event, "cuEventCreate");
    library.find(d.record_event, "cuEventRecord");
    library.find(d.query_event, "cuEventQuery");
    library.find(d.destroy_event, "cuEventDestroy_v2");
    library.find(d.error_name, "cuGetErrorName");
    library.find(d.error_text, "cuGetErrorString");
    if (Result r = d.init(0)) throw std::runtime_error("the CUDA driver does not start: error " + std::to_string(r));
    return d;
  }();
  return loaded;
}

void check(Result r, const char* what) {
  if (r == 0) return;
  const char *name = "unknown error", *text = "";
  driver().error_name(r, &name);
  driver().error_text(r, &text);
  throw std::runtime_error(std::string(what) + " failed: " + name + ": " + text);
}

int attribute(int device, int which) {
  int value = 0;
  check(driver().device_attribute(&value, which, device), "cuDeviceGetAttribute");
  return value;
}

}  // namespace

Context& Context::get(int device) {
  static std::mutex mutex;
  static auto* contexts = new std::map<int, std::unique_ptr<Context>>;  // outlives every thread
  std::lock_guard lock(mutex);
  auto& context = (*contexts)[device];
  if (!context) context.reset(new Context(device));
  return *context;
}

Context::Context(int index) {
  int device = 0;
  check(driver().device_get(&device, index), "cuDeviceGet");
  // Numbers of CU_DEVICE_ATTRIBUTE_*.
  attributes_.capability = 10 * attribute(device, 75) + attribute(device, 76);
  attributes_.multiprocessors = attribute(device, 16);
  attributes_.threads_per_multiprocessor = attribute(device, 39);
  check(driver().retain_primary(&context_, device), "cuDevicePrimaryCtxRetain");
}

void Context::make_current() const { check(driver().set_current(context_), "cuCtxSetCurrent"); }

Function Context::load(std::span<const char> cubin, const std::string& symbol) const {
  make_current();
  void* module = nullptr;
  Function f;
  check(driver().load_module(&module, cubin.data()), "cuModuleLoadData");
  check(driver().find_function(&f.handle, module, symbol.c_str()), "cuModuleGetFunction");
  return f;
}

void Context::launch(Function function, const uint32_t grid[3], uint32_t threads, const void* arguments,
                     void* stream) const {
  void* parameters[] = {const_cast<void*>(arguments)};
  constexpr int kProgrammaticStreamSerialization = 6;
  static constexpr LaunchAttribute kOverlap{kProgrammaticStreamSerialization, {1}};
  const LaunchConfig config{{grid[0], grid[1], grid[2]},
                            {threads, 1, 1},
                            0,
                            stream,
                            &kOverlap,
                            attributes_.capability >= kOverlapping ? 1u : 0u};
  check(driver().launch(&config, function.handle, parameters, nullptr), "cuLaunchKernelEx");
  // As torch's kernels do then: a kernel that breaks off fails its own launch, whose op and line the executor knows.
  static const char* blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  if (blocking && *blocking == '1') check(driver().synchronize(stream), "the kernel");
}

void Context::copy(void* to, const void* from, size_t bytes, void* stream) const {
  if (bytes == 0) return;
  check(driver().copy(reinterpret_cast<uint64_t>(to), reinterpret_cast<uint64_t>(from), bytes, stream),
        "cuMemcpyDtoDAsync");
}

void Context::begin_capture(void* stream) const {
  constexpr int kThreadLocal = 1;
  check(driver().begin_capture(stream, kThreadLocal), "cuStreamBeginCapture");
}

void* Context::last_node(void* stream) const {
  int status = 0;
  uint64_t id = 0;
  void* graph = nullptr;
  void* const* nodes = nullptr;
  const void* edges = nullptr;  // else a node that may start early would be an error
  size_t count = 0;
  check(driver().capture_info(stream, &status, &id, &graph, &nodes, &edges, &count), "cuStreamGetCaptureInfo");
  return count == 1 ? nodes[0] : nullptr;
}

Graph Context::end_capture(void* stream) const {
  Graph graph;
  check(driver().end_capture(stream, &graph.nodes), "cuStreamEndCapture");
  if (const Result r = driver().instantiate(&graph.runnable, graph.nodes, 0)) {
    destroy(graph);
    check(r, "cuGraphInstantiate");
  }
  return graph;
}

void Context::set_arguments(const Graph& graph, void* node, Function function, const uint32_t grid[3], uint32_t threads,
                            const void* arguments) const {
  void* parameters[] = {const_cast<void*>(arguments)};
  const KernelNodeParameters kernel{
      function.handle, {grid[0], grid[1], grid[2]}, {threads, 1, 1}, 0, parameters, nullptr, nullptr, nullptr};
  check(driver().set_kernel_node(graph.runnable, node, &kernel), "cuGraphExecKernelNodeSetParams");
}

void Context::launch(const Graph& graph, void* stream) const {
  check(driver().launch_graph(graph.runnable, stream), "cuGraphLaunch");
}

void Context::destroy(Graph& graph) const noexcept {
  if (graph.runnable) driver().destroy_runnable(graph.runnable);
  if (graph.nodes) driver().destroy_graph(graph.nodes);
  graph = {};
}

void* Context::record_event(void* stream) const {
  constexpr unsigned kWithoutTiming = 2;
  void* event = nullptr;
  check(driver().create_event(&event, kWithoutTiming), "cuEventCreate");
  if (const Result r = driver().record_event(event, stream)) {
    destroy_event(event);
    check(r, "cuEventRecord");
  }
  return event;
}

bool Context::has_passed(void* event) const {
  constexpr Result kNotReady = 600;
  const Result r = driver().query_event(event);
  if (r != kNotReady) check(r, "cuEventQuery");
  return r == 0;
}

void Context::destroy_event(void* event) const noexcept { driver().destroy_event(event); }

void* Context::map_host_memory(size_t bytes) const {
  make_current();
  constexpr unsigned kPortable = 1, kMapped = 2;
  void* memory = nullptr;
  check(driver().map_host(&memory, bytes, kPortable | kMapped), "cuMemHostAlloc");
  std::memset(memory, 0, bytes);
  return memory;
}

}  // namespace lazuli::jit::cuda
