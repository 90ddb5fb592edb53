#include "lazy/memory/memory.h"

#include <bit>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/Exception.h>
#include "lazy/memory/backing.h"
#include "lazy/run/runner.h"
#include "lazy/support/config.h"
#include "lazy/support/mutex.h"

namespace lazuli::lazy {
namespace {

constexpr size_t kMaxCached = size_t{4} << 30;  // bytes kept for reuse at most
// Allocations after which a size that nobody asked for meanwhile is given up: many steps' worth.
constexpr uint64_t kPatience = 1 << 14;

// Four classes per power of two, so that at most a quarter of a block is unused.
size_t size_class(size_t bytes) {
  if (bytes <= 64) return 64;
  size_t step = std::bit_floor(bytes - 1) / 4;
  step = step < 64 ? 64 : step;
  return (bytes + step - 1) / step * step;
}

class Allocator {
 public:
  // A block and its size, which is another class's at most twice as large where this one has none: programs whose sizes
  // change would else ask for fresh memory most of the time.
  std::pair<void*, size_t> take(size_t size) {
    {
      std::lock_guard lock(mutex_);
      count(size);
      if (++taken_ % (kPatience / 4) == 0) give_up_unused();
      const auto own = free_.try_emplace(size).first;
      own->second.used = taken_;
      for (auto it = own; it != free_.end() && it->first <= 2 * size; ++it) {
        auto& [blocks, used] = it->second;
        if (blocks.empty()) continue;
        void* p = blocks.back();
        blocks.pop_back();
        used = taken_;
        cached_ -= it->first;
        return {p, it->first};
      }
      stats_.bytes_reserved += static_cast<int64_t>(size);
    }
    void* p = std::aligned_alloc(64, size);
    if (!p) {
      release();
      p = std::aligned_alloc(64, size);
    }
    if (!p) {
      std::lock_guard lock(mutex_);
      stats_.bytes_live -= static_cast<int64_t>(size);
      stats_.bytes_reserved -= static_cast<int64_t>(size);
      TORCH_CHECK_WITH(OutOfMemoryError, false, "lazuli: tried to allocate ", size, " bytes of host memory (",
                       stats_.bytes_live, " in use)");
    }
    return {p, size};
  }
  // `taken`: for how much; `size`: of the block.
  void give(void* p, size_t taken, size_t size) {
    std::lock_guard lock(mutex_);
    stats_.bytes_live -= static_cast<int64_t>(taken);
    if (cached_ + size > kMaxCached) {
      stats_.bytes_reserved -= static_cast<int64_t>(size);
      std::free(p);
      return;
    }
    cached_ += size;
    free_[size].blocks.push_back(p);
  }
  void release() {
    std::lock_guard lock(mutex_);
    for (auto& [size, list] : free_) give_up(size, list);
  }
  MemoryStats stats() {
    std::lock_guard lock(mutex_);
    return stats_;
  }
  void reset_peak() {
    std::lock_guard lock(mutex_);
    stats_.bytes_peak = stats_.bytes_live;
  }

 private:
  struct List {
    std::vector<void*> blocks;
    uint64_t used = 0;  // how many had been taken when one of these was
  };
  void give_up(size_t size, List& list) {
    for (void* p : list.blocks) std::free(p);
    const size_t bytes = size * list.blocks.size();
    stats_.bytes_reserved -= static_cast<int64_t>(bytes);
    cached_ -= bytes;
    list.blocks.clear();
  }
  // Else programs whose sizes change would keep some of each.
  void give_up_unused() {
    for (auto& [size, list] : free_)
      if (taken_ - list.used > kPatience) give_up(size, list);
  }
  void count(size_t size) {
    ++stats_.allocations;
    stats_.bytes_live += static_cast<int64_t>(size);
    if (stats_.bytes_live > stats_.bytes_peak) stats_.bytes_peak = stats_.bytes_live;
  }
  Mutex mutex_{Rank::Leaf};
  std::map<size_t, List> free_;  // by size class
  uint64_t taken_ = 0;
  size_t cached_ = 0;
  MemoryStats stats_;
};

// Never destroyed: buffers may be freed while the process ends.
Allocator& allocator() {
  static auto* a = new Allocator;
  return *a;
}

c10::DeviceAllocator& torch_allocator() { return *c10::getDeviceAllocator(backing().device().type()); }

MemoryStats torch_stats() {
  const auto s = torch_allocator().getDeviceStats(backing().device().index());
  const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return {s.allocated_bytes[all].current, s.allocated_bytes[all].peak, s.reserved_bytes[all].current,
          s.allocation[all].allocated};
}

jit::Buffer allocate_on_device(size_t bytes) {
  try {
    return backing().allocate(bytes);
  } catch (const c10::OutOfMemoryError&) {
    if (Runner::is_running()) throw;  // the executor frees and tries again
  }
  Runner::get().drain();  // traces hold values until they have run
  release_cached_memory();
  return backing().allocate(bytes);
}

}  // namespace

jit::Buffer allocate_buffer(size_t bytes) {
  if (!backing().shares_host_memory) return allocate_on_device(bytes);
  const size_t taken = size_class(bytes);
  const auto [p, size] = allocator().take(taken);
  return {p, bytes, std::shared_ptr<void>(p, [taken, size](void* q) { allocator().give(q, taken, size); })};
}
MemoryStats memory_stats() { return backing().shares_host_memory ? allocator().stats() : torch_stats(); }
void reset_peak_memory() {
  backing().shares_host_memory ? allocator().reset_peak()
                               : torch_allocator().resetPeakStats(backing().device().index());
}
void release_cached_memory() {
  if (jit::PackedOperands* packed = packed_operands()) packed->clear();
  backing().shares_host_memory ? allocator().release() : torch_allocator().emptyCache();
}

jit::PackedOperands* packed_operands() {
  static auto* operands = new jit::PackedOperands;  // never freed: buffers may be, until the process ends
  const int64_t limit = config().max_packed_bytes;
  if (!backing().shares_host_memory || limit == 0) return nullptr;  // a GPU's libraries read operands as they are
  operands->set_limit(static_cast<size_t>(limit));
  return operands;
}

}  // namespace lazuli::lazy
