// What was found of the value that a storage holds, kept beside it until the storage holds another one.
#pragma once
#include <memory>
#include <utility>
#include <vector>
#include <ATen/core/Tensor.h>
#include "lazy/support/convert.h"
#include "lazy/trace/cell.h"
#include "lazy/trace/moving_windows.h"
#include "lazy/trace/prefix.h"

namespace lazuli::lazy {

// Where a mask's elements are not zero, as a list of int64 that counts them in row-major order. Only who reads the mask
// knows how many there are, and whoever indexes with it needs them again, for another tensor or for backward.
class KnownPositions {
 public:
  // Of the tensor, a window on the storage. Null: not known.
  CellRef find(const at::Tensor& t) const {
    for (const Known& k : known_)
      if (k.offset == t.storage_offset() && k.type == t.scalar_type() && ir::equal(k.sizes, t.sizes()) &&
          ir::equal(k.strides, t.strides()))
        return k.positions;
    return {};
  }
  // What takes too much memory is not kept: it is found anew each time.
  void add(const at::Tensor& t, CellRef positions) {
    known_.push_back(
        {t.scalar_type(), to_dims(t.sizes()), to_dims(t.strides()), t.storage_offset(), std::move(positions)});
    while (known_.size() > kMost || bytes() > kMostBytes) known_.erase(known_.begin());
  }

 private:
  static constexpr size_t kMost = 8;  // windows of one storage; the oldest ones are forgotten
  static constexpr int64_t kMostBytes = int64_t{64} << 20;
  struct Known {
    c10::ScalarType type;
    ir::Dims sizes, strides;
    int64_t offset;
    CellRef positions;
  };
  int64_t bytes() const {
    int64_t sum = 0;
    for (const Known& k : known_) sum += k.positions->type.bytes();
    return sum;
  }
  std::vector<Known> known_;
};

// Values of several storages in a row, as a library wants them. Each of the storages has this note. So all of them hold
// these values as long as none has lost it.
struct Joined {
  std::vector<std::pair<const void*, int64_t>> places;  // by piece its storage, and the offset in it
  const void* order;                                    // of the pieces in `value`, and what is between them
  CellRef value;
};

struct ValueNotes {
  Windows windows;
  KnownPositions positions;
  Growth growth;
  std::shared_ptr<const Joined> joined;
};

}  // namespace lazuli::lazy
