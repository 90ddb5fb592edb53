// Memory with room at its end, to which a program appends. A cache that grows in each step,
// `keys = torch.cat([keys, new], dim)`, would be copied each time. Instead its memory is made larger than it is, and
// only what is new is written there (lazy/record/appending.h). Such a cache's storage shows a prefix of that memory:
// what lies before `length` in one dimension.
#pragma once
#include "lazy/trace/cell.h"

namespace lazuli::lazy {

struct Prefix {
  CellRef memory;  // flat
  ir::Dims sizes;  // of the memory, row-major
  int64_t dim, length;
  // Its value in a trace, which belongs to that trace alone.
  Cell* cell = nullptr;
  uint64_t epoch = 0;

  ir::Type type() const {
    ir::Dims shown = sizes;
    shown[dim] = length;
    return {memory->type.dtype, shown};
  }
};

// That the value of a storage was made by appending to another one.
struct Growth {
  int64_t dim = -1;  // none
  int times = 0;     // in traces one after the other
  uint64_t epoch = 0;
};

}  // namespace lazuli::lazy
