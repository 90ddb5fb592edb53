// Memory at an address that somebody outside was given (`Tensor.data_ptr()`): C code or a compiled kernel may read it,
// and write it, whenever it likes. The pages are closed until they are touched. The first touch faults, and the handler
// puts there what the storage holds by then, computing it if need be; the first write faults once more. So an address
// that nobody follows costs nothing, which is how most are used: to tell tensors apart. What traces compute with lies
// elsewhere: a trace that was recorded before a write through the address does not see it, and an op called after does.
//
// A system call does not fault but fails ("Bad address") if it is given closed pages.
#pragma once
#include <ATen/core/Tensor.h>
#include "lazy/trace/cell.h"

namespace lazuli::lazy {

class LazyStorage;

class LentMemory {
 public:
  // Reserves addresses. Throws a torch error if there are none.
  LentMemory(LazyStorage& owner, size_t bytes);
  ~LentMemory();
  LentMemory(const LentMemory&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // Whether somebody outside may have written since the storage was last read.
  bool is_written() const { return state_ == State::Written; }
  // What they have written, as a cell of that type; from the next write on it is written again.
  CellRef take(const ir::Type& type);
  // The storage holds something else from now on.
  void close();
  // Somebody touches it. Called by the handler.
  void open(bool to_write);

 private:
  enum class State : uint8_t { Closed, Readable, Written };

  LazyStorage& owner_;
  void* data_;
  size_t bytes_, size_;  // the storage's, and whole pages
  State state_ = State::Closed;
};

// The address of the tensor's first element, for as long as its storage lives and keeps its size; 0 if it has no
// elements.
int64_t lend_address(const at::Tensor& t);

}  // namespace lazuli::lazy
