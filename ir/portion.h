// Pieces of a graph.
#pragma once
#include <functional>
#include <span>
#include <vector>
#include "ir/graph.h"

namespace lazuli::ir {

// Some nodes of a graph, as a graph of their own.
struct Portion {
  Graph graph;
  std::vector<Value> inputs;      // of the whole graph: what each input of the part stands for
  std::vector<uint32_t> scalars;  // likewise, by position
  std::vector<uint32_t> nodes;    // of the whole graph, by node; the part's inputs are the nodes that give them
};
// What computes the values `wanted` from those of nodes that are given, which are inputs; but leaves are what they are.
Portion cut(const Graph& graph, std::span<const Value> wanted, const std::function<bool(uint32_t)>& is_given);
// All nodes before `begin` are.
Portion cut(const Graph& graph, uint32_t begin, std::span<const Value> wanted);
// By node: whether the values are computed from it, or it is given and they are computed from that.
std::vector<bool> ancestors(const Graph& graph, std::span<const Value> wanted,
                            const std::function<bool(uint32_t)>& is_given);

}  // namespace lazuli::ir
