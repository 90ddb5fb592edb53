// The first step of fusion: which values have memory of their own. See fusion.h.
#pragma once
#include <vector>
#include "lowering/index/value_table.h"

namespace lazuli::lowering {

class Epilogues;
class Libraries;

// Does view `v` hold the bytes of its operand in the same order?
bool shares_bytes(const ir::Graph& graph, ir::Value v);

// Served by a library or the host rather than by a generated kernel.
bool is_call(ir::Op op);

class StorageChoice {
 public:
  StorageChoice(const ir::Graph& graph, ValueTable& values, const Epilogues& epilogues, const Libraries& libraries,
                bool inline_nodes);
  // Gives v memory, or lets it share its operand's when it is the same bytes under another type.
  void require(ir::Value v);

 private:
  struct Cost {
    int ops = 0;         // in additions, to recompute
    int wide_loads = 0;  // operands read at every element
    int loads = 0;
    int nodes = 0;
  };
  void count_uses();
  void require_operands(const ir::Node& node);
  bool is_seen_only_as(ir::Value v, ir::Value base) const;
  // Of a call's results: nobody reads it, and the call need not make it.
  bool is_left_out(ir::Value v) const;
  // Whether a call can read v where it lies, as it shows the memory that it is a window on.
  bool reads_in_place(const ir::Node& reader, ir::Value v) const;
  bool reads_in_place(const ir::Node& reader, ir::Value v, const ir::Dims& strides) const;
  void require_strided(const ir::Node& reader, ir::Value v);
  void choose(ir::Value v, bool inline_nodes);
  Cost cost(ir::Value v) const;
  // Gives memory to the costly parts of v's expression that are much smaller than v. False when it has none.
  bool store_narrow_parts(ir::Value v, ir::Value part);
  // Costs of v's expression anew, since parts of it have memory now.
  void refresh_cost(ir::Value v);

  const ir::Graph& graph_;
  ValueTable& values_;
  const Epilogues& epilogues_;
  const Libraries& libraries_;
  std::vector<uint8_t> live_;     // by node
  std::vector<uint16_t> uses_;    // by value, views counted as their readers
  std::vector<uint8_t> widened_;  // by value: some reader repeats it
  std::vector<uint8_t> spread_;   // by value: some reader repeats it, a row, for very many rows
  std::vector<Cost> costs_;       // by value
};

}  // namespace lazuli::lowering
