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
  // Zeroed memory of the host that kernels write over the bus, at the same address; never freed.
  void* map_host_memory(size_t bytes) const;

 private:
  explicit Context(int device);
  void* context_ = nullptr;
  Attributes attributes_;
};

}  // namespace lazuli::jit::cuda
