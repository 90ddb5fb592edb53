// The CUDA driver for tests, found at run time: memory, modules, launches, events.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lazuli::testing {

class Gpu {
 public:
  using Function = void*;

  // The first device, or null and the reason.
  static Gpu* find(std::string& why_not);

  int capability() const { return capability_; }
  int multiprocessors() const { return multiprocessors_; }
  uint64_t allocate(size_t bytes);
  void free(uint64_t memory);
  void upload(uint64_t to, const void* from, size_t bytes);
  void download(void* to, uint64_t from, size_t bytes);
  void copy(uint64_t to, uint64_t from, size_t bytes);
  // Throws with the assembler's words if it refuses.
  Function load(const std::string& ptx, const std::string& symbol);
  void launch(Function f, const uint32_t grid[3], uint32_t threads, std::vector<int64_t> args);
  // Waits; throws if anything has failed.
  void synchronize();
  double microseconds(const std::function<void()>& work);

 private:
  Gpu() = default;
  int capability_ = 0, multiprocessors_ = 0;
};

}  // namespace lazuli::testing
