// Memory for buffers. On the CPU a caching allocator over the C library, so that a steady step faults in no pages:
// freed blocks are kept by size class and given again. On a GPU torch's own caching allocator, whose statistics then
// are the process's. Statistics feed torch.lazuli's memory calls.
#pragma once
#include <cstddef>
#include <cstdint>
#include "jit/run/executable.h"
#include "jit/run/packed_operands.h"

namespace lazuli::lazy {

struct MemoryStats {
  int64_t bytes_live = 0;      // handed out
  int64_t bytes_peak = 0;      // highest bytes_live since the last reset
  int64_t bytes_reserved = 0;  // handed out or kept for reuse
  int64_t allocations = 0;
};

// 64-byte aligned; throws c10::Error (torch's out-of-memory class) on exhaustion. Zero bytes give a valid buffer.
jit::Buffer allocate_buffer(size_t bytes);
MemoryStats memory_stats();
void reset_peak_memory();
void release_cached_memory();
// What traces that are about to run may keep packed; null where nothing is.
jit::PackedOperands* packed_operands();

}  // namespace lazuli::lazy
