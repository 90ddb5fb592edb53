#include "lazy/memory/host_block.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <sys/mman.h>

namespace lazuli::lazy {
namespace {

constexpr size_t kLine = 64, kPage = 4096, kLargePage = size_t{2} << 20;
constexpr size_t kOwnPages = size_t{256} << 10;  // bytes from which on a block has pages of its own

void* map(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

// What is mapped too much before and behind goes back at once. `bytes` are whole pages.
void* map_aligned(size_t bytes, size_t alignment) {
  auto* const p = static_cast<char*>(map(bytes + alignment));
  if (!p) return nullptr;
  const size_t before = alignment - reinterpret_cast<uintptr_t>(p) % alignment;
  munmap(p, before);
  if (alignment > before) munmap(p + before + bytes, alignment - before);
  return p + before;
}

// Blocks that all began at the beginning of a page would meet in the same few places of a cache: kernels over four of
// them take up to a quarter longer. So each begins elsewhere in its first page.
void* map_staggered(size_t bytes) {
  static std::atomic<size_t> count = 0;
  auto* const p = static_cast<char*>(map(bytes + kPage));
  return p ? p + count++ * 9 * kLine % kPage : nullptr;
}
void unmap_staggered(void* block, size_t bytes) {
  munmap(static_cast<char*>(block) - reinterpret_cast<uintptr_t>(block) % kPage, bytes + kPage);
}

}  // namespace

void* allocate_block(size_t bytes, size_t used) {
  if (bytes < kOwnPages) return std::aligned_alloc(kLine, bytes);
  if (bytes < kLargePage) return map_staggered(bytes);
  void* p = map_aligned(bytes, kLargePage);
  const size_t large = std::min(bytes, used) / kLargePage * kLargePage;
  if (p && large) madvise(p, large, MADV_HUGEPAGE);  // a hint: what the system has none of stays on usual pages
  return p;
}

void free_block(void* block, size_t bytes) {
  if (bytes < kOwnPages)
    std::free(block);
  else if (bytes < kLargePage)
    unmap_staggered(block, bytes);
  else
    munmap(block, bytes);
}

}  // namespace lazuli::lazy
