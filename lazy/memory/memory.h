// Memory for buffers. On the CPU a caching allocator over the C library, so that a steady step faults in no pages:
// freed blocks are kept by size class and given again. On a GPU torch's own caching allocator, whose statistics then
// are the process's. Statistics feed torch.lazuli's memory calls.
#pragma once
#include <cstddef>
#include <utility>
#include <c10/core/CachingDeviceAllocator.h>
#include "jit/run/executable.h"
#include "jit/run/packed_operands.h"

namespace lazuli::lazy {

// 64-byte aligned; throws c10::Error (torch's out-of-memory class) on exhaustion. Zero bytes give a valid buffer.
jit::Buffer allocate_buffer(size_t bytes);
// As torch counts them, over all pools. What is handed out is rounded up to a size class.
using MemoryStats = c10::CachingDeviceAllocator::DeviceStats;
constexpr auto kAllPools = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
MemoryStats memory_stats();
void reset_peak_memory();
void reset_accumulated_memory();
void release_cached_memory();
// Says that a trace is about to run: what is kept for reuse is a run older.
void age_cached_memory();
// Gives the system the host's memory that nobody uses: buffers that are kept for reuse, and pages that the C library
// keeps. Whatever asks for memory next has to fault pages in.
void give_back_host_memory();
// Bytes that the C library keeps though nobody uses them.
size_t unused_heap_bytes();
// Counts host memory that another allocator gave, while a buffer holds it.
class CountedMemory {
 public:
  explicit CountedMemory(size_t bytes);
  ~CountedMemory();
  CountedMemory(const CountedMemory&) = delete;

 private:
  size_t bytes_;
};
// Free and total bytes of the backing device's memory.
std::pair<size_t, size_t> memory_info();
// What traces that are about to run may keep packed, as far as it may be kept; null on a GPU.
jit::PackedOperands* packed_operands();
// As jit::Host and jit::PackedOperands have them. Who reads a ready cell's buffer brings it back first.
std::shared_ptr<void> let_go(const jit::Buffer& buffer);
void bring_back(const jit::Buffer& buffer);

}  // namespace lazuli::lazy
