// The CUDA driver as Lazuli uses it, found at run time: nothing is linked, so one binary serves machines without a GPU.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace lazuli::jit::cuda {

struct Attributes {
  int capability = 0;  // 90 for sm_90
  int multiprocessors = 0;
  int threads_per_multiprocessor = 0;
};

// A loaded kernel; lives as long as the process.
struct Function {
  void* handle = nullptr;
};

// A graph of the driver, made of what a stream was given, and its nodes' handles. Destroyed by Context::destroy().
struct Graph {
  void* nodes = nullptr;
  void* runnable = nullptr;
};

// The primary context of a GPU, which is torch's too. All calls throw std::runtime_error with the driver's own words.
class Context {
 public:
  // Throws when there is no driver, or no such GPU.
  static Context& get(int device);
  const Attributes& attributes() const { return attributes_; }

  // New threads have no context.
  void make_current() const;
  Function load(std::span<const char> cubin, const std::string& symbol) const;
  // `arguments`: the kernel's one parameter, by value. The kernel may start before those ahead of it in the stream have
  // ended (kOverlapping).
  void launch(Function function, const uint32_t grid[3], uint32_t threads, const void* arguments, void* stream) const;
  void copy(void* to, const void* from, size_t bytes, void* stream) const;
  // Stream capture: what is put into the stream from now on is not run but becomes nodes of a graph. Other threads may
  // do meanwhile what they like.
  void begin_capture(void* stream) const;
  // The node that came last, if nothing else did beside it; else null.
  void* last_node(void* stream) const;
  // Throws if something was asked for that cannot be captured; the capture has ended all the same.
  Graph end_capture(void* stream) const;
  // A kernel node's parameter is this one in later launches.
  void set_arguments(const Graph& graph, void* node, Function function, const uint32_t grid[3], uint32_t threads,
                     const void* arguments) const;
  void launch(const Graph& graph, void* stream) const;
  void destroy(Graph& graph) const noexcept;
  // An event behind what is in the stream now.
  void* record_event(void* stream) const;
  bool has_passed(void* event) const;
  void destroy_event(void* event) const noexcept;
  // Zeroed memory of the host that kernels write over the bus, at the same address; never freed.
  void* map_host_memory(size_t bytes) const;

 private:
  explicit Context(int device);
  void* context_ = nullptr;
  Attributes attributes_;
};

}  // namespace lazuli::jit::cuda
