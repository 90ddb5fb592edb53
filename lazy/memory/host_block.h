// A block of host memory for buffers.
#pragma once
#include <cstddef>

namespace lazuli::lazy {

// At least 64-byte aligned, to be given back by free_block; null where there is no memory. `bytes` are those of a size
// class: whole pages, if they are many. A block of 256 KiB or more has pages of its own, so that the system has them as
// soon as it is given back: in the heap others would keep it in pieces. What holds whole large pages is put on them
// where the system lets it: memory is read a seventh faster there, since fewer addresses have to be translated and the
// processor fetches ahead across fewer ends of pages. `used`: how many of the bytes are wanted now; no page is large
// that reaches beyond them, so that no memory is taken that nobody uses.
void* allocate_block(size_t bytes, size_t used);
// `bytes`: as many as were asked for.
void free_block(void* block, size_t bytes);

}  // namespace lazuli::lazy
