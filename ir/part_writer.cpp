#include "ir/part_writer.h"
#include <algorithm>
#include <array>
#include "ir/hash.h"

namespace lazuli::ir {
namespace {

constexpr int64_t kWhole = Parts::kWhole;
constexpr uint32_t kMostHeavy = 8;  // in a row
constexpr uint32_t kLong = 1024;    // entries after which a part ends at the next place that looks like it
constexpr uint64_t kPlaces = 16;    // about one place in so many does

// What costs so much that others may well wait for it: a kernel of its own, or several.
bool is_heavy(Op op) { return is_contraction(op) || info(op).kind == Kind::External; }
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

bool CutPlacer::cuts_before_next(bool needed) {
  const Entry& entry = listing_.entries[next_];
  const Op op = entry.op;
  const std::span seams = listing_.seams;
  bool cut = false;
  if (needed && is_computed(op)) {
    const bool at_seam = seam_ < seams.size() && seams[seam_] <= next_;
    const bool heavy = is_heavy(op), row_ends = heavy_in_row_ == 0 || heavy_in_row_ == kMostHeavy;
    const bool gathering = gathers(entry), around = gathering || gathered_;
    cut = count_ > 0 && (around || (heavy && row_ends) || at_seam || (count_ >= kLong && looks_like_a_place()));
    if (cut) count_ = 0, heavy_in_row_ = 0;
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
  return dense_offset(v);
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
