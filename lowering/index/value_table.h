// Dense numbers for a graph's values, and which of them have memory: their own, or that of the value whose bytes they
// are under another shape or type. Memory is row-major, or channels-last where layout_choice.h says so.
#pragma once
#include <vector>
#include "ir/graph.h"

namespace lazuli::lowering {

class ValueTable {
 public:
  explicit ValueTable(const ir::Graph& graph) : first_(graph.nodes.size() + 1) {
    for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
      first_[n + 1] = first_[n] + static_cast<uint32_t>(graph.nodes[n].types.size());
      for (uint32_t r = 0; r < graph.nodes[n].types.size(); ++r) home_.push_back({n, r});
    }
    stored_.resize(first_.back());
    channels_last_.resize(first_.back());
  }
  uint32_t operator[](ir::Value v) const { return first_[v.node] + v.result; }
  uint32_t count() const { return first_.back(); }

  bool stored(ir::Value v) const { return stored_[(*this)[v]]; }
  void store(ir::Value v) { stored_[(*this)[v]] = 1; }
  void inline_again(ir::Value v) { stored_[(*this)[v]] = 0; }  // of a value without sharers
  // v has memory, the one that `base` has.
  void share(ir::Value v, ir::Value base) {
    store(v);
    home_[(*this)[v]] = home(base);
    set_channels_last(home(base), false);
  }
  // v, the permutation of a channels-last `base` that lists it in the order of its memory, has that memory.
  void share_as_it_lies(ir::Value v, ir::Value base) { home_[(*this)[v]] = base; }
  void share_no_longer(ir::Value v) { home_[(*this)[v]] = v; }
  ir::Value home(ir::Value v) const { return home_[(*this)[v]]; }
  bool shares(ir::Value v) const { return home(v) != v; }

  bool channels_last(ir::Value v) const { return channels_last_[(*this)[v]]; }
  void set_channels_last(ir::Value v, bool yes) { channels_last_[(*this)[v]] = yes; }

 private:
  std::vector<uint32_t> first_;
  std::vector<uint8_t> stored_, channels_last_;
  std::vector<ir::Value> home_;
};

}  // namespace lazuli::lowering
