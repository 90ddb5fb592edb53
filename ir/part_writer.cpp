#include "ir/part_writer.h"
#include <algorithm>
#include <array>
#include "ir/hash.h"

namespace lazuli::ir {
namespace {

constexpr int64_t kWhole = Parts::kWhole;
constexpr uint32_t kMostHeavy = 8;       // in a row
constexpr uint32_t kMostPreparing = 64;  // entries of what is computed for a product alone
constexpr uint32_t kLong = 1024;         // entries after which a part ends at the next place that looks like it
constexpr uint64_t kPlaces = 16;         // about one place in so many does

// What costs so much that others may well wait for it: a kernel of its own, or several.
bool is_heavy(Op op) { return is_contraction(op) || info(op).kind == Kind::External; }
// What may be computed where its result is read.
bool prepares(Op op) { return is_elementwise(op) || info(op).kind == Kind::Index; }
}  // namespace

uint8_t number_lists(Op op) {
  static const auto lists = [] {
    constexpr std::string_view kNumbers[] = {"shape", "strides",     "offset",       "starts", "sizes", "size", "low",
                                             "high",  "input_shape", "weight_shape", "rows",   "value", "call"};
    std::array<uint8_t, kOpCount> bits{};
    for (size_t op = 0; op < kOpCount; ++op)
      for (size_t i = 0; i < kOps[op].attrs.size(); ++i)
        if (std::ranges::find(kNumbers, kOps[op].attrs[i]) != std::end(kNumbers)) bits[op] |= uint8_t(1u << i);
    return bits;
  }();
  return lists[static_cast<size_t>(op)];
}

// A few of the ops before the place decide.
bool CutPlacer::looks_like_a_place() const {
  uint64_t h = 0;
  for (uint32_t i = next_ < 4 ? 0 : next_ - 4; i <= next_; ++i)
    h = mix(h, static_cast<uint64_t>(listing_.entries[i].op));
  return h % kPlaces == 0;
}

// Whether it computes something that is wanted.
bool CutPlacer::is_there(uint32_t entry) const { return needed_[entry] && is_computed(listing_.entries[entry].op); }

// The entry that made what v is a view of.
uint32_t CutPlacer::owner(ValueId v) const {
  for (;;) {
    const auto behind = std::ranges::upper_bound(listing_.entries.first(next_), v, {}, &Entry::first_result);
    const Entry& entry = *std::prev(behind);
    if (!is_view(entry.op)) return static_cast<uint32_t>(&entry - listing_.entries.data());
    v = listing_.operands(entry)[0];
  }
}

bool CutPlacer::is_of_this_part(uint32_t owner) const {
  return owner >= begin_ && is_computed(listing_.entries[owner].op);
}

// Where begin the entries that prepare an operand of the next one, such as weights of few bits that become floats: they
// read nothing that the part has computed before, and the operand takes more memory than what it is made of. With the
// product in one part it need not lie in memory at all. If there is no such operand, the next entry.
uint32_t CutPlacer::begin_of_operands() const {
  uint32_t begin = next_;
  while (begin > begin_ && next_ - begin < kMostPreparing &&
         (!is_there(begin - 1) || prepares(listing_.entries[begin - 1].op)))
    --begin;
  for (uint32_t e = begin; e < next_; ++e) {
    const auto read_before = [&](ValueId v) {
      if (v == kAbsent) return false;
      const uint32_t from = owner(v);
      return from < begin && is_of_this_part(from);
    };
    if (!is_there(e)) continue;
    if (std::ranges::any_of(listing_.operands(listing_.entries[e]), read_before)) begin = e + 1;
  }
  while (begin < next_ && !is_there(begin)) ++begin;
  const auto is_prepared = [&](ValueId v) { return v != kAbsent && grows(v, begin); };
  return std::ranges::any_of(listing_.operands(listing_.entries[next_]), is_prepared) ? begin : next_;
}

// Whether v is computed by entries from `from` on, out of clearly fewer bytes than it has.
bool CutPlacer::grows(ValueId v, uint32_t from) const {
  Size sources = 0;
  bool computed = false;
  std::vector<ValueId> left{v}, seen;
  while (!left.empty()) {
    const ValueId x = left.back();
    left.pop_back();
    if (x == kAbsent || std::ranges::find(seen, x) != seen.end()) continue;
    seen.push_back(x);
    const uint32_t maker = owner(x);
    const Entry& entry = listing_.entries[maker];
    if (is_leaf(entry.op) && entry.op != Op::input) continue;
    if (is_of_this_part(maker)) {
      if (maker < from) return false;
      computed = true;
      const std::span operands = listing_.operands(entry);
      left.insert(left.end(), operands.begin(), operands.end());
    } else {
      const Size whole = listing_.types[entry.first_result]->bytes(), read = listing_.types[x]->bytes();
      sources += std::min(whole, read);
    }
  }
  return computed && 4 * sources <= 3 * listing_.types[v]->bytes();
}

// How many of the open part's entries from there on compute something.
uint32_t CutPlacer::count_from(uint32_t begin) const {
  if (begin == begin_) return count_;
  uint32_t count = 0;
  for (uint32_t e = begin; e < next_; ++e) count += is_there(e);
  return count;
}

std::optional<uint32_t> CutPlacer::next(bool needed) {
  needed_.push_back(needed);
  const Entry& entry = listing_.entries[next_];
  const Op op = entry.op;
  const std::span seams = listing_.seams;
  std::optional<uint32_t> cut;
  if (needed && is_computed(op)) {
    const bool at_seam = seam_ < seams.size() && seams[seam_] <= next_;
    const bool heavy = is_heavy(op), row_ends = heavy_in_row_ == 0 || heavy_in_row_ == kMostHeavy;
    const bool gathering = gathers(entry), around = gathering || gathered_;
    uint32_t begin = begin_;
    if (around || at_seam || (count_ >= kLong && looks_like_a_place()))
      begin = next_;
    else if (heavy && row_ends && count_ > 0)
      begin = begin_of_operands();
    if (const uint32_t behind = count_from(begin); behind < count_) {
      cut = begin_ = begin;
      count_ = behind;
      heavy_in_row_ = 0;
    }
    while (seam_ < seams.size() && seams[seam_] <= next_) ++seam_;
    heavy_in_row_ = heavy ? heavy_in_row_ + 1 : 0;
    gathered_ = gathering;
    ++count_;
  }
  ++next_;
  return cut;
}

size_t count_computed(const Listing& listing, uint32_t begin, uint32_t end) {
  const auto entries = listing.entries.subspan(begin, end - begin);
  return static_cast<size_t>(std::ranges::count_if(entries, is_computed, &Entry::op));
}

std::vector<uint32_t> prospect_numbers(const Listing& listing, uint32_t begin, uint32_t end) {
  uint32_t next = 0;
  auto next_other = static_cast<uint32_t>(count_computed(listing, begin, end));
  std::vector<uint32_t> numbers;
  numbers.reserve(end - begin);
  for (const Entry& e : listing.entries.subspan(begin, end - begin))
    numbers.push_back(is_computed(e.op) ? next++ : next_other++);
  return numbers;
}

void PartWriter::find_owners() {
  values_.resize(listing_.types.size());
  for (; seen_ < listing_.entries.size(); ++seen_) {
    const Entry& entry = listing_.entries[seen_];
    const bool view = is_view(entry.op);
    for (uint16_t r = 0; r < entry.results; ++r) {
      ValueFacts& v = values_[entry.first_result + r];
      v.owner = seen_;
      v.base = view ? values_[listing_.operands(entry)[0]].base : entry.first_result + r;
    }
  }
}

void PartWriter::write_part(uint32_t begin, uint32_t end) {
  begin_ = begin;
  first_ = parts_.begin(part());
  bool gathering = false;
  for (uint32_t e = begin; e < end; ++e) gathering = gathering || (gathers(listing_.entries[e]) && is_needed(e));
  parts_.gathers.push_back(gathering);
  for (uint32_t e = begin; e < end; ++e)
    if (is_computed(listing_.entries[e].op) && is_needed(e)) write(e);
  for (uint32_t e = begin; e < end; ++e)
    for (uint16_t r = 0; r < listing_.entries[e].results; ++r) {
      if (!is_output(e, r)) continue;
      const ValueId v = listing_.entries[e].first_result + r;
      see_to(v);
      parts_.outputs.push_back({v, values_[v].in_part});
      parts_.code.push_back(reference(values_[v].in_part));
    }
  const auto size = [](const auto& list) { return static_cast<uint32_t>(list.size()); };
  parts_.ends.push_back({end, size(parts_.code), size(parts_.numbers), size(parts_.nodes), size(parts_.inputs),
                         size(parts_.scalars), size(parts_.outputs)});
}

// Writes what the part needs of a value, if it is not there yet.
void PartWriter::see_to(ValueId v) {
  chain_.clear();
  while (values_[v].written != part()) {
    const Entry& entry = listing_.entries[values_[v].owner];
    if (!is_shared(entry.op)) {
      write_input(v, kWhole);
      break;
    }
    if (const int64_t offset = window_offset(v); offset != kWhole) {
      write_input(v, offset);
      break;
    }
    chain_.push_back(v);
    if (!is_view(entry.op)) break;
    v = listing_.operands(entry)[0];
  }
  // Of views of views the innermost goes first.
  for (; !chain_.empty(); chain_.pop_back()) write_node(values_[chain_.back()].owner);
}

// Where the memory of a view begins in that of a value from elsewhere, if it is a piece of that; else kWhole. The part
// gets the piece alone, so that it is the same part wherever the piece is.
int64_t PartWriter::window_offset(ValueId v) const {
  const Entry& entry = listing_.entries[values_[v].owner];
  if (!is_view(entry.op)) return kWhole;
  const Type &type = *listing_.types[v], &operand = *listing_.types[listing_.operands(entry)[0]];
  if (type.bytes() >= operand.bytes() || type.numel() == 0) return kWhole;
  const uint32_t base = values_[values_[v].base].owner;
  const Op base_op = listing_.entries[base].op;
  if (is_shared(base_op) || (is_computed(base_op) && base >= begin_)) return kWhole;
  const int64_t offset = dense_offset(v);
  return offset % alignment_ == 0 ? offset : kWhole;
}

// Bytes from the beginning of what v is a view of, if v lies there dense and row-major; else kWhole.
int64_t PartWriter::dense_offset(ValueId v) const {
  const Entry& entry = listing_.entries[values_[v].owner];
  if (!is_view(entry.op)) return 0;
  const ValueId operand = listing_.operands(entry)[0];
  const Type &type = *listing_.types[v], &from = *listing_.types[operand];
  const StridedWindow window = info(entry.op).window(from, unpack(listing_.attrs(entry), entry.op), type);
  const Dims dense = contiguous_strides(type.shape);
  for (size_t d = 0; d < type.shape.size(); ++d)
    if (type.shape[d] != 1 && window.strides[d] != dense[d]) return kWhole;
  const int64_t before = dense_offset(operand);
  return before == kWhole ? kWhole : int64_t{before + window.offset * item_size(from.dtype)};
}

void PartWriter::write(uint32_t e) {
  for (ValueId v : listing_.operands(listing_.entries[e]))
    if (v != kAbsent) see_to(v);
  write_node(e);
}

// Its operands are there.
void PartWriter::write_node(uint32_t e) {
  const Entry& entry = listing_.entries[e];
  const std::span operands = listing_.operands(entry);
  const std::span attrs = listing_.attrs(entry);
  std::vector<int64_t>& code = parts_.code;
  code.push_back(static_cast<int64_t>(entry.op) | static_cast<int64_t>(entry.results) << 16 |
                 static_cast<int64_t>(operands.size()) << 32);
  code.push_back(static_cast<int64_t>(attrs.size()) | static_cast<int64_t>(listing_.line(e)) << 32);
  for (ValueId v : operands) code.push_back(v == kAbsent ? -1 : reference(values_[v].in_part));
  if (entry.op == Op::scalar) {
    code.push_back(static_cast<int64_t>(parts_.scalars.size() - first_.scalars));
    parts_.scalars.push_back(static_cast<uint32_t>(attrs[1]));
  } else {
    write_attrs(entry.op, attrs);
  }
  if (takes_types(entry.op))
    for (uint16_t r = 0; r < entry.results; ++r) write_type(*listing_.types[entry.first_result + r]);
  for (uint16_t r = 0; r < entry.results; ++r) {
    ValueFacts& facts = values_[entry.first_result + r];
    facts.written = part();
    facts.in_part = {static_cast<uint32_t>(parts_.nodes.size()) - first_.nodes, r};
  }
  parts_.nodes.push_back({e, kAbsent});
}

void PartWriter::write_attrs(Op op, std::span<const int64_t> flat) {
  for_lists(op, flat, [&](std::span<const int64_t> values, bool are_numbers) {
    parts_.code.push_back(static_cast<int64_t>(values.size()));
    std::vector<int64_t>& to = are_numbers ? parts_.numbers : parts_.code;
    to.insert(to.end(), values.begin(), values.end());
  });
}

void PartWriter::write_type(const Type& type) {
  parts_.code.push_back(static_cast<int64_t>(type.dtype) | type.rank() << 32);
  parts_.numbers.insert(parts_.numbers.end(), type.shape.begin(), type.shape.end());
}

// What an earlier part made, or an input of the listing.
void PartWriter::write_input(ValueId v, int64_t offset) {
  ValueFacts& facts = values_[v];
  auto [last, donated, fleeting] = next_input(v, offset == kWhole);
  if (parts_.gathers.back()) donated = fleeting = false;
  const Type& type = *listing_.types[v];
  parts_.code.push_back(static_cast<int64_t>(Op::input) | int64_t{donated} << 16 | int64_t{fleeting} << 17);
  write_type(type);
  facts.written = part();
  facts.in_part = {static_cast<uint32_t>(parts_.nodes.size()) - first_.nodes, 0};
  parts_.nodes.push_back({facts.owner, v});
  parts_.inputs.push_back({facts.base, offset, type.bytes(), last, donated, fleeting});
}

}  // namespace lazuli::ir
