// A matrix whose rows are put together from pieces: numbers of 4 bits, say, that lie in the two halves of bytes, and
// are stacked. A product along such rows is a sum over the pieces, none of which has to be put anywhere.
#pragma once
#include <unordered_map>
#include "ir/passes/rewrite.h"

namespace lazuli::lowering {

class DepthPieces {
 public:
  // [rows, depth], as it is computed element by element from one concatenation, maybe under other shapes. There may be
  // no matrix, and then no pieces.
  DepthPieces(const ir::Graph& graph, ir::Value matrix);
  // How many pieces of equal size; 1: the matrix is not of this kind.
  int64_t count() const { return count_; }
  bool is_concatenation(uint32_t node) const { return count_ > 1 && node == node_; }
  // Piece i, [rows, depth / count()].
  ir::Value matrix(ir::Rewriter& r, int64_t i);
  // [m, depth], in the order of the pieces: what belongs to piece i begins at i * depth / count().
  ir::Value in_order(ir::Builder& b, ir::Value rows) const;

 private:
  bool find(ir::Value v);
  bool fits(const ir::Dims& shape) const;
  ir::Dims dims_of_piece(ir::Dims shape) const;
  size_t cut_dim(const ir::Dims& shape) const { return alternate_ ? shape.size() - 1 : 1; }
  ir::Value piece(ir::Rewriter& r, ir::Value v, int64_t i);
  ir::Value part(ir::Builder& b, ir::Value whole, int64_t i) const;

  const ir::Graph& graph_;
  const ir::Value matrix_;
  uint32_t node_ = 0;  // the concatenation
  int64_t count_ = 1;
  bool alternate_ = false;  // elements of the pieces take turns; else one piece lies behind the other
  std::unordered_map<uint64_t, ir::Value> made_;  // by node and piece
};

}  // namespace lazuli::lowering
