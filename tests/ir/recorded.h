// A graph as a recording would have kept it.
#pragma once
#include "ir/listing.h"

namespace lazuli::ir::testing {

class Recorded {
 public:
  // `seams`: nodes that begin something of their own.
  explicit Recorded(const Graph& graph, std::vector<uint32_t> seams = {}) : graph_(graph), seams_(std::move(seams)) {
    std::vector<ValueId> first(graph.nodes.size());
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const Node& node = graph.nodes[n];
      Entry e{node.op,
              static_cast<uint16_t>(node.types.size()),
              static_cast<uint32_t>(operands_.size()),
              static_cast<uint32_t>(node.inputs.size()),
              static_cast<uint32_t>(attrs_.size()),
              0,
              static_cast<ValueId>(types_.size())};
      first[n] = e.first_result;
      for (Value v : node.inputs) operands_.push_back(v ? first[v.node] + v.result : kAbsent);
      attrs_.insert(attrs_.end(), node.attrs.flat().begin(), node.attrs.flat().end());
      if (is_leaf(node.op)) {
        attrs_.push_back(static_cast<int64_t>(node.types[0].dtype));
        attrs_.insert(attrs_.end(), node.types[0].shape.begin(), node.types[0].shape.end());
      }
      e.attr_count = static_cast<uint32_t>(attrs_.size()) - e.attr_begin;
      entries_.push_back(e);
      for (const Type& t : node.types) types_.push_back(&t);
    }
    for (Value v : graph.outputs) live_.push_back(first[v.node] + v.result);
  }
  Listing listing() const { return {entries_, operands_, attrs_, types_, {}, seams_}; }
  const std::vector<ValueId>& live() const { return live_; }
  size_t values() const { return types_.size(); }

 private:
  const Graph& graph_;
  std::vector<uint32_t> seams_;
  std::vector<Entry> entries_;
  std::vector<ValueId> operands_, live_;
  std::vector<int64_t> attrs_;
  std::vector<const Type*> types_;
};

inline std::string no_lines(uint32_t) { return ""; }

}  // namespace lazuli::ir::testing
