// Along which dimension of a value its queries lie, and what it takes to compute a node for some queries alone.
#pragma once
#include <functional>
#include <optional>
#include <vector>
#include "ir/builder.h"

namespace lazuli::lowering {

inline constexpr int64_t kNoAxis = -1;  // of an operand: all of it is read for any query

// How a node is computed for a block of queries.
struct BlockRule {
  int64_t axis = kNoAxis;         // of the result; none: blocks' results are added up
  std::vector<int64_t> operands;  // by operand: which dimension is cut
};

// `axis_of`: of an operand whose queries are known, along which dimension they lie; kNoAxis of the others. Nothing
// where the node does not keep queries apart.
std::optional<BlockRule> rule_of(const ir::Graph& graph, const ir::Node& node,
                                 const std::function<int64_t(ir::Value)>& axis_of);
// Of a node that only computes elements or moves them: which dimension of each operand is cut where `axis` of the
// result is. Nothing where that cannot be said.
std::optional<std::vector<int64_t>> operands_of(const ir::Graph& graph, const ir::Node& node, int64_t axis);
// The node's attributes where dimension `axis` of its result (kNoAxis: none) has `rows` elements.
ir::Attrs attributes_of(const ir::Node& node, int64_t axis, ir::Size rows);

}  // namespace lazuli::lowering
