// A recording as it is kept while ops are recorded: applications one after the other, in flat lists. Values are
// numbered in the order of recording, leaves included. A graph (graph.h) is made of one, or of a part of it (parts.h).
#pragma once
#include <cstdint>
#include <span>
#include <vector>
#include "ir/graph.h"

namespace lazuli::ir {

using ValueId = uint32_t;
inline constexpr ValueId kAbsent = UINT32_MAX;  // an optional operand that is not there

struct Entry {
  Op op;
  uint16_t results;
  uint32_t operand_begin, operand_count;
  uint32_t attr_begin, attr_count;  // flattened as Attrs are; of a leaf with its type's dtype and shape behind them
  ValueId first_result;
  friend bool operator==(const Entry&, const Entry&) = default;
};

struct Listing {
  std::span<const Entry> entries;
  std::span<const ValueId> all_operands;  // of all entries, one after the other
  std::span<const int64_t> all_attrs;
  std::vector<const Type*> types;   // by value
  std::span<const uint32_t> lines;  // by entry: the interned Python line; fewer: 0 for the rest
  std::span<const uint32_t> seams;  // ascending: entries that begin something of its own, such as an optimizer's step

  std::span<const ValueId> operands(const Entry& e) const {
    return all_operands.subspan(e.operand_begin, e.operand_count);
  }
  std::span<const int64_t> attrs(const Entry& e) const { return all_attrs.subspan(e.attr_begin, e.attr_count); }
  uint32_t line(size_t entry) const { return entry < lines.size() ? lines[entry] : 0; }
};

// An entry's attributes as its row names them, without a leaf's type: graphs and builders are given types apart.
Attrs unpack(std::span<const int64_t> flat, Op op);

}  // namespace lazuli::ir
