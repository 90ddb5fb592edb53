#include "lazy/memory/host_block.h"

#include <algorithm>
#include <cstdlib>
#include <sys/mman.h>

namespace lazuli::lazy {
namespace {

constexpr size_t kLargePage = size_t{2} << 20;

}  // namespace

void* allocate_block(size_t bytes, size_t used) {
  const size_t large = std::min(bytes, used) / kLargePage * kLargePage;
  if (large == 0) return std::aligned_alloc(64, bytes);
  void* p = std::aligned_alloc(kLargePage, bytes);
  if (p) madvise(p, large, MADV_HUGEPAGE);  // a hint: what the system has none of stays on usual pages
  return p;
}

}  // namespace lazuli::lazy
