// How parts (parts.h) are found and written down, whoever knows what becomes of their values: the whole listing behind
// them, or only what became of such a part's before.
#pragma once
#include <optional>
#include <vector>
#include "ir/parts.h"

namespace lazuli::ir {

// Where a listing is cut, entry by entry.
class CutPlacer {
 public:
  explicit CutPlacer(const Listing& listing) : listing_(listing) {}
  // The entry before which a part ends, if the next entry shows one: itself, or where begins what it is computed from.
  // `needed`: somebody wants what the next entry computes.
  std::optional<uint32_t> next(bool needed);

 private:
  bool looks_like_a_place() const;
  bool is_there(uint32_t entry) const;
  uint32_t owner(ValueId v) const;
  bool is_of_this_part(uint32_t owner) const;
  uint32_t begin_of_operands() const;
  bool grows(ValueId v, uint32_t from) const;
  uint32_t count_from(uint32_t begin) const;

  const Listing& listing_;
  std::vector<bool> needed_;  // by entry
  uint32_t begin_ = 0;        // of the open part
  uint32_t next_ = 0, count_ = 0, heavy_in_row_ = 0;
  bool gathered_ = false;  // the last one
  size_t seam_ = 0;
};

class PartWriter {
 public:
  virtual ~PartWriter() = default;

 protected:
  struct ValueFacts {
    uint32_t owner = 0;          // its entry
    ValueId base = 0;            // what it is a view of
    uint32_t written = kNoPart;  // the last part that has it, and what it is there
    Value in_part;
  };
  static constexpr uint32_t kNoPart = UINT32_MAX;

  // The listing may grow between calls.
  explicit PartWriter(const Listing& listing, int64_t alignment = 1) : listing_(listing), alignment_(alignment) {}
  void find_owners();  // of what has been recorded since
  // Appends what entries [begin, end) compute, which lie behind those of the parts before.
  void write_part(uint32_t begin, uint32_t end);

  virtual bool is_needed(uint32_t entry) const = 0;
  virtual bool is_output(uint32_t entry, uint16_t result) const = 0;
  // Of the next input, the value `v` or a piece of it. Of a part that gathers, only whether it is the last use counts.
  virtual Prospect::Input next_input(ValueId v, bool whole) = 0;

  const ValueFacts& facts(ValueId v) const { return values_[v]; }
  // Of the part that is being written: its first entry, and how many inputs it has so far.
  uint32_t first_entry() const { return begin_; }
  size_t inputs_so_far() const { return parts_.inputs.size() - first_.inputs; }

  const Listing& listing_;
  const int64_t alignment_;  // bytes that divide where a piece of a value begins that a part gets alone
  Parts parts_;

 private:
  static int64_t reference(Value v) { return static_cast<int64_t>(v.node) << 16 | v.result; }
  uint32_t part() const { return static_cast<uint32_t>(parts_.size()); }
  void see_to(ValueId v);
  int64_t window_offset(ValueId v) const;
  int64_t dense_offset(ValueId v) const;
  void write(uint32_t e);
  void write_node(uint32_t e);
  void write_attrs(Op op, std::span<const int64_t> flat);
  void write_type(const Type& type);
  void write_input(ValueId v, int64_t offset);

  std::vector<ValueFacts> values_;
  uint32_t seen_ = 0;   // entries
  uint32_t begin_ = 0;  // of the part
  Parts::Ends first_;   // where the part's lists begin
  std::vector<ValueId> chain_;
};

// What every part that reads it has for itself.
inline bool is_shared(Op op) { return is_view(op) || (is_leaf(op) && op != Op::input); }
// What one part computes.
inline bool is_computed(Op op) { return !is_shared(op) && op != Op::input; }

// An op of so many operands that there may well be more or fewer another time, such as what an episode's steps gave.
inline bool gathers(const Entry& e) {
  constexpr uint32_t kFew = 4;
  return info(e.op).arity < 0 && info(e.op).kind != Kind::External && e.operand_count > kFew;
}

// How many of the entries [begin, end) compute something.
size_t count_computed(const Listing& listing, uint32_t begin, uint32_t end);
// Numbers of the entries [begin, end) in the sense of Prospect.
std::vector<uint32_t> prospect_numbers(const Listing& listing, uint32_t begin, uint32_t end);

// Which of an op's attributes are numbers in the sense of Parts: a bit for each.
uint8_t number_lists(Op op);

// Calls f(list, whether it holds numbers) for each of an op's attributes, as they are recorded; a leaf's type behind
// them is none.
template <class F>
void for_lists(Op op, std::span<const int64_t> flat, F f) {
  const uint8_t numbers = number_lists(op);
  size_t at = 0;
  for (size_t list = 0; at < flat.size() && list < info(op).attrs.size() && !info(op).attrs[list].empty(); ++list) {
    const auto values = flat.subspan(at + 1, static_cast<size_t>(flat[at]));
    f(values, numbers >> list & 1);
    at += values.size() + 1;
  }
}

}  // namespace lazuli::ir
