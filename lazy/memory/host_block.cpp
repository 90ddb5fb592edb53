#include "lazy/memory/host_block.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <sys/mman.h>

namespace lazuli::lazy {
namespace {

constexpr size_t kLargePage = size_t{2} << 20;
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

}  // namespace

void* allocate_block(size_t bytes, size_t used) {
  if (bytes < kOwnPages) return std::aligned_alloc(64, bytes);
  const size_t large = std::min(bytes, used) / kLargePage * kLargePage;
  if (large == 0) return map(bytes);
  void* p = map_aligned(bytes, kLargePage);
  if (p) madvise(p, large, MADV_HUGEPAGE);  // a hint: what the system has none of stays on usual pages
  return p;
}

void free_block(void* block, size_t bytes) { bytes < kOwnPages ? std::free(block) : void(munmap(block, bytes)); }

}  // namespace lazuli::lazy
