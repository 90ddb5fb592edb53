// A graph's call on tensors of the device behind ours: their memory is taken over, and results are given back as
// tensors of that device. Dense inputs and new results are not copied; what the graph writes to its inputs is.
#pragma once
#include <optional>
#include "backend/graphs/captured_graph.h"

namespace lazuli::backend {

class MemoryBehind {
 public:
  using Tensors = CapturedGraph::Tensors;
  // Whether it is of the device behind ours, strided, of a type that ours knows, and its memory has its numbers as they
  // are.
  static bool can_take_over(const at::Tensor& original);
  // Tensors of our device stay as they are, and negated ones are copied. None: another one cannot be taken over.
  static std::optional<MemoryBehind> take_over(const Tensors& originals);
  // Tensors of our device over the memory of the originals.
  const Tensors& tensors() const { return tensors_; }
  // Computes what is pending, and returns tensors over the results' memory: an original itself, or a view of it, where
  // that is the result. What was written to tensors() is in the originals then. Results from number `kept` on are for
  // the graph's own backward: those that are no originals stay tensors of our device.
  Tensors give_back(const Tensors& results, size_t kept) const;

 private:
  at::Tensor given(const at::Tensor& result, size_t taken) const;
  void write_back() const;
  static void note_kept(const Tensors& results, size_t kept);

  Tensors originals_, tensors_;
  // As long as somebody has these, no result takes over the memory, also where the tensors have been written to.
  std::vector<lazy::CellRef> cells_;
};

}  // namespace lazuli::backend
