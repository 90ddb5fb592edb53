// Elementwise nodes that a contraction's library call does on its result while it is still in registers: a bias, a
// residual, an activation. They form a chain of values that nobody else reads.
//
// Of bfloat16 and float16 only the chain's end is rounded, where eager rounds each op's result. A product's last digits
// depend on the order of its sum anyway, so no chain after it can be eager's bit for bit; with fewer roundings it is no
// further from the exact result than eager's. It has to be so for a bias, which eager's own products absorb.
#pragma once
#include <memory>
#include <vector>
#include "lowering/fusion/fusion.h"
#include "lowering/fusion/library_calls.h"

namespace lazuli::lowering {

// What is computed for an epilogue alone gets memory of its own if it is so small, and so many times smaller than the
// result.
inline constexpr int64_t kSmallOperand = 1 << 15, kTimesSmaller = 16;  // elements

struct Epilogue {
  std::vector<PostOp> ops;               // layouts of operands already in the contraction's shape
  std::vector<StridedOperand> operands;  // one per op that has one, in the contraction's shape
  std::vector<uint32_t> nodes;           // of the chain
  ir::Value result;                      // its end, which takes the call's memory
  // Of the contraction's dimensions in that memory, where the chain turned the image that the call makes; empty: as its
  // shape says.
  ir::Dims strides;
};

// By node; only contractions whose calls take post-ops have any, and no more than they take.
class Epilogues {
 public:
  Epilogues() = default;
  Epilogues(const ir::Graph& graph, const Libraries& libraries);
  const Epilogue* of(uint32_t contraction) const { return by_node_.empty() ? nullptr : by_node_[contraction].get(); }
  bool absorbed(uint32_t node) const { return !absorbed_.empty() && absorbed_[node]; }

 private:
  std::vector<std::unique_ptr<Epilogue>> by_node_;
  std::vector<uint8_t> absorbed_;
};

}  // namespace lazuli::lowering
