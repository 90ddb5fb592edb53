#include "lazy/memory/memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <vector>
#include <c10/util/Exception.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>
#include "lazy/memory/backing.h"
#include "lazy/memory/capture_pool.h"
#include "lazy/memory/host_block.h"
#include "lazy/run/runner.h"
#include "lazy/support/config.h"
#include "lazy/support/mutex.h"

namespace lazuli::lazy {
namespace {

constexpr size_t kMaxCached = size_t{4} << 30;  // bytes kept for reuse at most
// How long a block waits for somebody to take it.
struct Patience {
  uint64_t allocations, runs;
};
constexpr Patience kPatience{1 << 12, 1 << 6};
// Where fresh memory is needed, so that what grows from step to step, such as a cache of keys and values, does not
// leave behind all that it was before.
constexpr Patience kLittlePatience{1 << 8, 1 << 4};

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
  // change would else ask for fresh memory most of the time. `used`: what is wanted of it now.
  std::pair<void*, size_t> take(size_t size, size_t used) {
    {
      std::lock_guard lock(mutex_);
      count(size);
      if (++taken_ % (kPatience.allocations / 4) == 0) give_up_unused(kPatience, cached_);
      for (auto it = free_.lower_bound(size); it != free_.end() && it->first <= 2 * size; ++it) {
        auto& blocks = it->second;
        if (blocks.empty()) continue;
        void* p = blocks.back().memory;
        blocks.pop_back();
        cached_ -= it->first;
        return {p, it->first};
      }
      give_up_unused(kLittlePatience, size);
      reserve(size);
    }
    void* p = allocate_block(size, used);
    if (!p) {
      release();
      std::lock_guard lock(mutex_);
      ++stats_.num_alloc_retries;
      p = allocate_block(size, used);
    }
    if (!p) {
      std::lock_guard lock(mutex_);
      ++stats_.num_ooms;
      uncount(size);
      unreserve(1, size);
      TORCH_CHECK_WITH(OutOfMemoryError, false, "lazuli: tried to allocate ", size, " bytes of host memory (",
                       stats_.allocated_bytes[kAllPools].current, " in use)");
    }
    return {p, size};
  }
  // `taken`: for how much; `size`: of the block. `is_away`: it is not counted any more.
  void give(void* p, size_t taken, size_t size, bool is_away) {
    std::lock_guard lock(mutex_);
    if (!is_away) uncount(taken);
    if (cached_ + size > kMaxCached) {
      unreserve(1, size);
      free_block(p, size);
      return;
    }
    cached_ += size;
    free_[size].push_back({p, taken_, runs_});
  }
  void begin_run() { ++runs_; }
  void release() {
    std::lock_guard lock(mutex_);
    for (auto& [size, blocks] : free_) give_up(size, blocks, blocks.size());
  }
  void adopt(size_t bytes) {
    std::lock_guard lock(mutex_);
    count(bytes), reserve(bytes);
  }
  void abandon(size_t bytes) {
    std::lock_guard lock(mutex_);
    uncount(bytes), unreserve(1, bytes);
  }
  void leave(size_t taken) {
    std::lock_guard lock(mutex_);
    uncount(taken);
  }
  void come_back(size_t taken) {
    std::lock_guard lock(mutex_);
    count(taken);
  }
  MemoryStats stats() {
    std::lock_guard lock(mutex_);
    MemoryStats stats = stats_;
    stats.active = stats.allocation, stats.active_bytes = stats.allocated_bytes;  // nothing waits for a stream
    return stats;
  }
  void reset_peak() {
    std::lock_guard lock(mutex_);
    for (auto* stat : counted()) stat->reset_peak();
  }
  void reset_accumulated() {
    std::lock_guard lock(mutex_);
    for (auto* stat : counted()) stat->reset_accumulated();
    stats_.num_alloc_retries = stats_.num_ooms = 0;
  }

 private:
  struct Free {
    void* memory;
    uint64_t taken, runs;  // how many there had been when it was given back
  };
  // Of one size. The last is taken first, so the first ones are those that nobody took for longest.
  using Blocks = std::deque<Free>;

  void give_up(size_t size, Blocks& blocks, size_t count) {
    for (size_t i = 0; i < count; ++i) free_block(blocks[i].memory, size);
    blocks.erase(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(count));
    unreserve(count, size * count);
    cached_ -= size * count;
  }
  // Up to about so many bytes of what nobody took for so long: else programs whose sizes change would keep some of
  // each.
  void give_up_unused(Patience patience, size_t bytes) {
    const auto waited = [&](const Free& b) {
      return taken_ - b.taken > patience.allocations && runs_ - b.runs > patience.runs;
    };
    for (auto& [size, blocks] : free_) {
      size_t count = 0;
      while (count < blocks.size() && count * size < bytes && waited(blocks[count])) ++count;
      give_up(size, blocks, count);
      bytes -= std::min(bytes, count * size);
    }
  }
  void count(size_t size) {
    stats_.allocation[kAllPools].increase(1);
    stats_.allocated_bytes[kAllPools].increase(size);
  }
  void uncount(size_t size) {
    stats_.allocation[kAllPools].decrease(1);
    stats_.allocated_bytes[kAllPools].decrease(size);
  }
  void reserve(size_t size) {
    stats_.segment[kAllPools].increase(1);
    stats_.reserved_bytes[kAllPools].increase(size);
  }
  void unreserve(size_t blocks, size_t bytes) {
    stats_.segment[kAllPools].decrease(blocks);
    stats_.reserved_bytes[kAllPools].decrease(bytes);
  }
  std::array<c10::CachingAllocator::Stat*, 4> counted() {
    return {&stats_.allocation[kAllPools], &stats_.allocated_bytes[kAllPools], &stats_.segment[kAllPools],
            &stats_.reserved_bytes[kAllPools]};
  }
  Mutex mutex_{Rank::Leaf};
  std::map<size_t, Blocks> free_;  // by size class
  uint64_t taken_ = 0;
  std::atomic<uint64_t> runs_ = 0;
  size_t cached_ = 0;
  MemoryStats stats_;
};

// Never destroyed: buffers may be freed while the process ends.
Allocator& allocator() {
  static auto* a = new Allocator;
  return *a;
}

// Of our own buffers, by which they are known.
struct GiveBack {
  size_t taken, size;  // as Allocator::give has them
  bool is_away = false;
  void operator()(void* p) const { allocator().give(p, taken, size, is_away); }
};

// A buffer whose pages the system has.
class Absence {
 public:
  Absence(const std::shared_ptr<void>& owner, GiveBack& block) : owner_(owner) {
    block.is_away = true;
    allocator().leave(block.taken);
  }
  ~Absence() {
    if (const auto owner = owner_.lock()) {
      GiveBack& block = *std::get_deleter<GiveBack>(owner);
      block.is_away = false;
      allocator().come_back(block.taken);
    }
  }
  Absence(const Absence&) = delete;
  Absence& operator=(const Absence&) = delete;

 private:
  std::weak_ptr<void> owner_;
};

c10::DeviceAllocator& torch_allocator() { return *c10::getDeviceAllocator(backing().device().type()); }

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
  const auto [p, size] = allocator().take(taken, bytes);
  return {p, bytes, std::shared_ptr<void>(p, GiveBack{taken, size})};
}
std::shared_ptr<void> let_go(const jit::Buffer& buffer) {
  GiveBack* const block = std::get_deleter<GiveBack>(buffer.owner);
  if (!block || buffer.data != buffer.owner.get()) return nullptr;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(buffer.data), first = (begin + page - 1) / page * page,
             end = (begin + buffer.bytes) / page * page;
  if (first >= end || madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED) != 0) return nullptr;
  return std::make_shared<Absence>(buffer.owner, *block);
}
void bring_back(const jit::Buffer& buffer) {
  if (backing().shares_host_memory) packed_operands()->bring_back(buffer);
}
CountedMemory::CountedMemory(size_t bytes) : bytes_(bytes) { allocator().adopt(bytes); }
CountedMemory::~CountedMemory() { allocator().abandon(bytes_); }

MemoryStats memory_stats() {
  return backing().shares_host_memory ? allocator().stats()
                                      : torch_allocator().getDeviceStats(backing().device().index());
}
void reset_peak_memory() {
  backing().shares_host_memory ? allocator().reset_peak()
                               : torch_allocator().resetPeakStats(backing().device().index());
}
void reset_accumulated_memory() {
  backing().shares_host_memory ? allocator().reset_accumulated()
                               : torch_allocator().resetAccumulatedStats(backing().device().index());
}
void age_cached_memory() {
  if (backing().shares_host_memory) allocator().begin_run();
}
void release_cached_memory() {
  if (jit::PackedOperands* packed = packed_operands()) packed->clear();
  CapturePool::release_all();
  backing().shares_host_memory ? allocator().release() : torch_allocator().emptyCache();
}
void give_back_host_memory() {
  allocator().release();
  malloc_trim(0);
}
size_t unused_heap_bytes() { return mallinfo2().fordblks; }
std::pair<size_t, size_t> memory_info() {
  if (!backing().shares_host_memory) return torch_allocator().getMemoryInfo(backing().device().index());
  const auto pages = [](int of) {
    return static_cast<size_t>(sysconf(of)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  };
  return {pages(_SC_AVPHYS_PAGES), pages(_SC_PHYS_PAGES)};
}

jit::PackedOperands* packed_operands() {
  static auto* operands = new jit::PackedOperands;    // never freed: buffers may be, until the process ends
  if (!backing().shares_host_memory) return nullptr;  // a GPU's libraries read operands as they are
  operands->set_limit(static_cast<size_t>(config().max_packed_bytes));
  return operands;
}

}  // namespace lazuli::lazy
