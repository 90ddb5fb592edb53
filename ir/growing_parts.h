// The parts of a listing that is still being recorded, as cut() will find them when it is there as a whole. What only
// the rest decides is handed in: where that turns out otherwise, so do the parts.
#pragma once
#include <deque>
#include <optional>
#include "ir/part_writer.h"

namespace lazuli::ir {

class GrowingParts final : private PartWriter {
 public:
  struct Range {
    uint32_t begin, end;  // entries
  };
  // Of `listing`, whose lists may grow, and move.
  explicit GrowingParts(const Listing& listing) : PartWriter(listing), placer_(listing) {}
  // Takes in what has been recorded since. `needed`: by entry, whether somebody will want what it computes; where that
  // turns out otherwise, so may the parts.
  template <class Needed>
  void grow(Needed needed) {
    find_owners();
    for (; placed_ < listing_.entries.size(); ++placed_) place(needed(placed_));
  }
  // The next part whose end is known.
  std::optional<Range> next();
  // What is certain of a part before anything behind it is known: all of one that gathers. Null: nothing.
  const Prospect* certain(Range range) const;
  // Writes that part, the last of parts() then; false if it cannot have that prospect.
  bool write(Range range, const Prospect& prospect);
  const Parts& parts() const { return parts_; }
  // Whether value `v` is one that the listing is given.
  bool is_outside(ValueId v) const { return listing_.entries[facts(v).owner].op == Op::input; }

 private:
  void place(bool needed);
  bool is_needed(uint32_t entry) const override { return prospect_->needed[numbers_[entry - first_entry()]]; }
  bool is_output(uint32_t entry, uint16_t result) const override;
  Prospect::Input next_input(ValueId v, bool whole) override;

  CutPlacer placer_;
  uint32_t placed_ = 0, open_ = 0;  // entries; where the part begins whose end is not known
  std::deque<Range> closed_;
  // Of the part that is being written.
  const Prospect* prospect_ = nullptr;
  std::vector<uint32_t> numbers_;
};

}  // namespace lazuli::ir
