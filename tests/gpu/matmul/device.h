// A GPU for tests: memory, copies, streams and graphs through the driver, which is found at run time. Neither CUDA nor
// torch is linked, so that a test binary is one small file.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace lazuli::testing {

class Device {
 public:
  // The first GPU with its context current on this thread, or null where there is none; why_not() then says why.
  static const Device* get();
  static std::string why_not();

  std::string name() const;
  void make_current() const;  // on further threads
  void* stream() const { return stream_; }
  void* make_stream() const;
  void synchronize() const;  // all streams; throws what any kernel did wrong
  void* allocate(size_t bytes) const;
  void release(void* memory) const;
  void upload(void* to, const void* from, size_t bytes) const;
  void download(void* to, const void* from, size_t bytes) const;
  // What `stream` was given between the two becomes a graph, which is launched on it.
  void begin_capture(void* stream) const;
  void end_capture_and_launch(void* stream) const;

 private:
  Device();
  void* stream_ = nullptr;
};

// Device memory, aligned to 256 bytes.
class Memory {
 public:
  explicit Memory(size_t bytes) : bytes_(bytes), data_(Device::get()->allocate(bytes ? bytes : 1)) {}
  ~Memory() { Device::get()->release(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  char* data() const { return static_cast<char*>(data_); }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  void* data_;
};

}  // namespace lazuli::testing
