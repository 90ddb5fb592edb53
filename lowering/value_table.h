// Dense numbers for a graph's values, and which of them have memory.
#pragma once
#include <vector>
#include "ir/graph.h"

namespace lazuli::lowering {

class ValueTable {
 public:
  explicit ValueTable(const ir::Graph& graph);
  uint32_t operator[](ir::Value v) const { return first_[v.node] + v.result; }
  uint32_t count() const { return first_.back(); }
  bool stored(ir::Value v) const { return stored_[(*this)[v]]; }
  void store(ir::Value v) { stored_[(*this)[v]] = 1; }

 private:
  std::vector<uint32_t> first_;
  std::vector<uint8_t> stored_;
};

inline ValueTable::ValueTable(const ir::Graph& graph) : first_(graph.nodes.size() + 1) {
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    first_[i + 1] = first_[i] + static_cast<uint32_t>(graph.nodes[i].types.size());
  stored_.resize(first_.back());
}

}  // namespace lazuli::lowering
