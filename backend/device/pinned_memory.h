// Host memory that transfers start from. On a GPU it is CUDA's; on the CPU, where nothing is gained by it, it is plain
// memory that remembers it was asked for, so that `is_pinned` says what torch's users and loaders expect.
#pragma once
#include <c10/core/Allocator.h>

namespace lazuli::backend {

at::Allocator* pinned_allocator();
bool is_pinned(const void* p);

}  // namespace lazuli::backend
