// The trace: a linear recording of pending ops. Values are numbered in the order of recording, leaves included; an
// entry names its operands by number. A running hash of everything that decides the compiled code (ops, operands,
// attributes, input types) identifies the trace; run-time numbers are kept beside it and never enter the hash.
#pragma once
#include <cstring>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>
#include "ir/graph.h"
#include "ir/hash.h"
#include "ir/listing.h"
#include "lazy/trace/cell.h"
#include "lazy/trace/segment.h"

namespace lazuli::lazy {

using ir::Entry;
using ir::for_lookup;
using ir::kAbsent;
using ir::mix;
using ir::ValueId;

// The derivative of some entries, recorded behind them: for each value that they give and each that they read, its
// gradient.
struct Derivative {
  struct Pair {
    ValueId value, gradient;
  };
  uint32_t begin, end;  // the entries
  std::vector<Pair> outputs, reads;
};

class Trace {
 public:
  explicit Trace(uint64_t epoch) : epoch_(epoch) {}

  // Appends an op, whose results have no cells yet.
  ValueId append(ir::Op op, std::span<const ValueId> operands, std::span<const int64_t> attrs, uint16_t results);
  // Makes the cell for a result of the last append: pending, and held by the trace.
  void define(ValueId id, const ir::Type& type) { cells_[id] = new_cell(id, type); }
  // Both, for an op without attributes and with one result.
  ValueId append(ir::Op op, std::span<const ValueId> operands, const ir::Type& type) {
    ValueId id = append_entry(op, operands, {}, 1);
    cells_.push_back(new_cell(id, type));
    return id;
  }
  // The number of a cell in this trace; a ready cell becomes an input on first use.
  ValueId use(Cell* cell) {
    if (cell->epoch == epoch_) return cell->id;
    return enter(cell);
  }
  ValueId scalar(int64_t bits, ir::DType dtype);
  // A 0-dim (or, with shape, filled) constant that is part of the code.
  ValueId constant(double value, ir::DType dtype);

  // A ready cell for what lies `offset` elements into another: one for each window while the trace lasts. Its memory is
  // the whole's, which nothing writes over meanwhile.
  Cell& window(const Cell& whole, int64_t offset, const ir::Type& type);

  // The image v, pending, will be held as [N, H, W, C], and is nothing that the trace makes any more.
  void keep_as_image(ValueId v);
  // When it has ended: images of earlier traces that nobody else can read are its own.
  void let_go_of_images();

  // How far a trace has come. Traces at equal places have recorded the same code, as far as hashes and counts tell; a
  // Beginning (lazy/record/trace_prefix.h) tells for certain.
  struct Place {
    uint64_t hash;
    size_t entries, operands, attrs, values;
    friend bool operator==(const Place&, const Place&) = default;
  };
  Place place() const { return {hash_, entries_.size(), operands_.size(), attrs_.size(), cells_.size()}; }
  // What was recorded from a place on, to be recorded again at an equal one.
  struct Excerpt {
    Place begin;
    std::vector<Entry> entries;
    std::vector<ValueId> operands;
    std::vector<int64_t> attrs;
    std::vector<uint64_t> hashes;  // the running one after each entry
    std::vector<ir::Type> types;   // of the results
    std::vector<uint32_t> seams;   // counted from its first entry
    friend bool operator==(const Excerpt&, const Excerpt&) = default;
  };
  // None if there is something in it that does not follow from the code: inputs and run-time numbers.
  std::optional<Excerpt> since(const Place& begin) const;
  // `numbers`: its run-time numbers.
  void append(const Excerpt& e, std::span<const int64_t> numbers = {});
  // The running hash, `h` before the entry.
  static uint64_t hash_after(uint64_t h, const Entry& e, std::span<const ValueId> operands,
                             std::span<const int64_t> attrs);
  // Random numbers that were drawn: the run-time numbers that say where in a generator's sequence, how many, and
  // whether it is the device's default generator.
  struct Draw {
    ValueId seed, offset;
    int64_t count;
    bool is_default;
  };

  // Forgets everything but the capacity of its lists, and begins as `epoch`.
  void restart(uint64_t epoch);

  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  uint64_t epoch() const { return epoch_; }
  uint64_t hash() const { return hash_; }
  const std::vector<Entry>& entries() const { return entries_; }
  const std::vector<ValueId>& operands() const { return operands_; }  // of all entries, one after the other
  const std::vector<int64_t>& attrs() const { return attrs_; }
  std::span<const ValueId> operands(const Entry& e) const {
    return {operands_.data() + e.operand_begin, e.operand_count};
  }
  std::span<const int64_t> attrs(const Entry& e) const { return {attrs_.data() + e.attr_begin, e.attr_count}; }
  // Null for numbers and constants, which have no cell.
  Cell* cell(ValueId v) const { return cells_[v].get(); }
  size_t value_count() const { return cells_.size(); }
  std::span<const int64_t> scalars() const { return scalars_; }
  std::span<const ValueId> inputs() const { return inputs_; }
  std::span<const uint32_t> seams() const { return seams_; }
  // The code as it is kept, good until something is recorded.
  ir::Listing listing() const;
  // Says that the next entry begins something of its own.
  void begin_part() { seams_.push_back(static_cast<uint32_t>(entries_.size())); }
  // Values that somebody besides the trace can still read; and of those that nobody reads, what would be missed: an
  // error that only its numbers show, or the call itself.
  std::vector<ValueId> live() const;
  // Before its values go: gives the nodes that still hold entries what they need of them.
  void settle_segments();
  bool same_code(const Trace& other) const;
  // Whether `other` begins with all of this one, as far as hashes tell.
  bool begins(const Trace& other) const {
    return size() <= other.size() && (empty() || other.prefix_hashes[size() - 1] == prefix_hashes.back());
  }
  // What `wanted` is computed from, as a trace of its own over the same inputs, and its number there. None if that
  // takes more than `most` entries.
  std::optional<std::pair<Trace, ValueId>> slice(ValueId wanted, size_t most) const;
  // Adds the numbers of the external calls in it.
  void find_external_calls(std::unordered_set<int64_t>& calls) const;
  // The same code for comparing with later recordings, holding no values.
  Trace without_cells() const;
  int64_t pending_bytes() const { return pending_bytes_; }

  // Python lines by entry; interned numbers, 0 = unknown.
  std::vector<uint32_t> lines;
  std::vector<uint64_t> prefix_hashes;  // the running hash after each entry
  std::vector<SegmentRef> segments;     // entries that may be differentiated yet
  std::vector<Derivative> derivatives;  // noted for shadow runs only (derivatives.h)
  std::vector<Draw> draws;
  int peeks = 0;              // values of it that were computed apart
  bool is_kept_from = false;  // values of it are kept for a backward that is none of the segments'

 private:
  bool would_be_missed(const Entry& e) const;
  ValueId enter(Cell* cell);
  ValueId enter_image(Cell* cell);
  ValueId append_entry(ir::Op op, std::span<const ValueId> operands, std::span<const int64_t> attrs, uint16_t results);
  CellRef new_cell(ValueId id, const ir::Type& type);

  uint64_t epoch_;
  static constexpr uint64_t kSeed = 0x4c617a756c69;
  uint64_t hash_ = kSeed;
  int64_t pending_bytes_ = 0;
  std::vector<Entry> entries_;
  std::vector<ValueId> operands_;
  std::vector<int64_t> attrs_;
  std::vector<CellRef> cells_;
  std::vector<int64_t> scalars_;
  std::vector<uint32_t> seams_;
  std::vector<ValueId> inputs_;
  std::vector<CellRef> windows_;
  std::vector<ValueId> images_;  // of earlier traces
};

}  // namespace lazuli::lazy
