#include "ir/parts.h"
#include <algorithm>
#include "ir/hash.h"
#include "ir/infer.h"
#include "ir/part_writer.h"

namespace lazuli::ir {
namespace {

class Cutter final : private PartWriter {
 public:
  Cutter(const Listing& listing, std::span<const ValueId> live, const std::vector<bool>& donated, int64_t alignment)
      : PartWriter(listing, alignment),
        donated_(donated),
        entries_(listing.entries.size()),
        values_(listing.types.size()) {
    for (ValueId v : live) values_[v].live = true;
  }

  Parts run() {
    find_owners();
    drop_unneeded();
    place_cuts();
    find_last_uses();
    uint32_t e = 0;
    for (part_ = 0; part_ < part_count_; ++part_) {
      const uint32_t begin = e;
      while (e < entries_.size() && entries_[e].part == part_) ++e;
      write_part(begin, e);
    }
    return std::move(parts_);
  }

 private:
  struct EntryFate {
    uint32_t part = 0;
    bool needed = false;
  };
  struct ValueFate {
    uint32_t last_use = kNoPart;  // the last part that reads it or a view of it
    bool live = false;
  };

  bool any_live(const Entry& e) const {
    for (uint16_t r = 0; r < e.results; ++r)
      if (values_[e.first_result + r].live) return true;
    return false;
  }

  void drop_unneeded() {
    for (size_t e = entries_.size(); e-- > 0;) {
      const Entry& entry = listing_.entries[e];
      if (!entries_[e].needed && !any_live(entry)) continue;
      entries_[e].needed = true;
      for (ValueId v : listing_.operands(entry))
        if (v != kAbsent) entries_[facts(v).owner].needed = true;
    }
  }

  void place_cuts() {
    CutPlacer placer(listing_);
    uint32_t part = 0;
    for (size_t e = 0; e < entries_.size(); ++e) {
      if (const std::optional<uint32_t> cut = placer.next(entries_[e].needed)) {
        ++part;
        for (size_t later = *cut; later < e; ++later) entries_[later].part = part;
      }
      entries_[e].part = part;
    }
    part_count_ = entries_.empty() ? 0 : part + 1;
  }

  void find_last_uses() {
    for (uint32_t e = 0; e < entries_.size(); ++e) {
      const Entry& entry = listing_.entries[e];
      if (!entries_[e].needed || (is_shared(entry.op) && !any_live(entry))) continue;
      for (ValueId v : listing_.operands(entry))
        if (v != kAbsent) values_[facts(v).base].last_use = entries_[e].part;
    }
  }

  bool is_needed(uint32_t entry) const override { return entries_[entry].needed; }

  bool is_output(uint32_t e, uint16_t result) const override {
    if (!entries_[e].needed) return false;
    const Entry& entry = listing_.entries[e];
    const ValueFate& value = values_[entry.first_result + result];
    const bool handed_over = is_computed(entry.op) && value.last_use != kNoPart && value.last_use > part_;
    return value.live || handed_over;
  }

  Prospect::Input next_input(ValueId v, bool whole) override {
    const ValueFate& base = values_[facts(v).base];
    const Entry& entry = listing_.entries[facts(v).owner];
    const bool last = !base.live && base.last_use == part_;
    const bool outside = entry.op == Op::input;
    const auto position = outside ? static_cast<size_t>(listing_.attrs(entry)[1]) : 0;
    const bool fleeting = !outside || (position < donated_.size() && donated_[position]);
    return {last, last && whole && fleeting, fleeting};
  }

  const std::vector<bool>& donated_;
  std::vector<EntryFate> entries_;
  std::vector<ValueFate> values_;
  uint32_t part_count_ = 0, part_ = 0;
};

// Makes a part's nodes of what was recorded, with the numbers handed in instead of those recorded.
class Assembler {
 public:
  Assembler(const Listing& listing, SizeSpan numbers) : listing_(listing), numbers_(numbers) {}

  Node input(const Type& type, int64_t position) {
    Node node{.op = Op::input, .inputs = {}, .attrs = Attrs{{position}}, .types = {next_type(type)}};
    return node;
  }
  Node node(const Entry& e, std::vector<Value> operands, const Graph& graph) {
    Node node{.op = e.op, .inputs = std::move(operands), .attrs = attrs(e), .types = {}};
    if (takes_types(e.op)) {
      for (uint16_t r = 0; r < e.results; ++r) node.types.push_back(next_type(*listing_.types[e.first_result + r]));
      return node;
    }
    node.types.resize(e.results);
    operand_types_.clear();
    for (Value v : node.inputs) operand_types_.push_back(v ? &graph.type(v) : nullptr);
    infer(e.op, operand_types_, node.attrs, node.types);
    return node;
  }

 private:
  SizeSpan next(size_t n) {
    at_ += n;
    return numbers_.subspan(at_ - n, n);
  }
  Type next_type(const Type& like) { return {like.dtype, Dims(next(static_cast<size_t>(like.rank())))}; }
  Attrs attrs(const Entry& e) {
    if (e.op == Op::scalar) return Attrs{{scalars_++}};
    Attrs attrs;
    for_lists(e.op, listing_.attrs(e), [&](std::span<const int64_t> values, bool are_numbers) {
      attrs.add(are_numbers ? next(values.size()) : SizeSpan(values));
    });
    return attrs;
  }

  const Listing& listing_;
  SizeSpan numbers_;
  size_t at_ = 0;
  int64_t scalars_ = 0;
  std::vector<const Type*> operand_types_;
};

// What is known of numbers, until it is forgotten all at once: that costs nothing, and nothing is searched.
template <class T>
class Noted {
 public:
  void forget() { ++time_; }
  const T* find(uint32_t n) const { return n < notes_.size() && notes_[n].time == time_ ? &notes_[n].what : nullptr; }
  const T* note(uint32_t n, T what) {
    if (n >= notes_.size()) notes_.resize(std::max<size_t>(n + 1, 2 * notes_.size()));
    notes_[n] = {time_, what};
    return &notes_[n].what;
  }

 private:
  struct Note {
    uint64_t time = 0;
    T what;
  };
  std::vector<Note> notes_;
  uint64_t time_ = 0;
};

}  // namespace

Attrs unpack(std::span<const int64_t> flat, Op op) {
  Attrs attrs;
  for_lists(op, flat, [&](std::span<const int64_t> values, bool) { attrs.add(values); });
  return attrs;
}

Parts cut(const Listing& listing, std::span<const ValueId> live, const std::vector<bool>& donated, int64_t alignment) {
  return Cutter(listing, live, donated, alignment).run();
}

Prospect prospect_of(const Listing& listing, const Parts& parts, size_t part) {
  const uint32_t begin = parts.begin(part).entries, end = parts.ends[part].entries;
  const std::span nodes = parts.nodes_of(part);
  const std::vector<uint32_t> numbers = prospect_numbers(listing, begin, end);
  Prospect p;
  p.needed.resize(count_computed(listing, begin, end));
  p.inputs.reserve(parts.inputs_of(part).size());
  p.outputs.reserve(parts.outputs_of(part).size());
  for (const Parts::Node& n : nodes)
    if (n.input == kAbsent && is_computed(listing.entries[n.entry].op)) p.needed[numbers[n.entry - begin]] = true;
  for (const Parts::Input& x : parts.inputs_of(part)) p.inputs.push_back({x.last, x.donated, x.fleeting});
  for (const Parts::Output& x : parts.outputs_of(part)) {
    const uint32_t entry = nodes[x.in_part.node].entry;
    p.outputs.push_back({numbers[entry - begin], static_cast<uint16_t>(x.value - listing.entries[entry].first_result)});
  }
  return p;
}

uint64_t key_of_entries(const Listing& listing, uint32_t begin, uint32_t end) {
  const ValueId first = begin < end ? listing.entries[begin].first_result : 0;
  std::vector<uint64_t> of_values;  // from the first on: what each stands for
  if (begin < end) of_values.reserve(listing.entries[end - 1].first_result + listing.entries[end - 1].results - first);
  uint64_t key = 0, computed = 0;
  for (uint32_t e = begin; e < end; ++e) {
    const Entry& entry = listing.entries[e];
    uint64_t h = static_cast<uint64_t>(entry.op) | uint64_t{listing.line(e)} << 16;
    for (ValueId v : listing.operands(entry)) h = mix(h, v == kAbsent || v < first ? kAbsent : of_values[v - first]);
    if (is_computed(entry.op)) key = mix(key, h), h = computed++;
    for (uint16_t r = 0; r < entry.results; ++r) of_values.push_back(entry.op == Op::input ? kAbsent : mix(h, r));
  }
  return key;
}

uint64_t key_of_place(const Listing& listing, uint32_t entry) {
  constexpr uint32_t kBefore = 4;
  uint64_t key = 0;
  for (uint32_t e = entry < kBefore ? 0 : entry - kBefore; e <= entry; ++e)
    key = mix(key, static_cast<uint64_t>(listing.entries[e].op) | uint64_t{listing.line(e)} << 16);
  return key;
}

Graph graph_of(const Listing& listing, const Parts& parts, size_t part, std::string (*line_text)(uint32_t),
               SizeSpan numbers) {
  const std::span nodes = parts.nodes_of(part);
  Graph graph;
  graph.nodes.reserve(nodes.size());
  graph.input_count = parts.inputs_of(part).size();
  graph.scalar_count = parts.scalars_of(part).size();
  static thread_local Noted<Value> values;    // by value of the listing
  static thread_local Noted<uint32_t> lines;  // by its lines
  values.forget();
  lines.forget();
  Assembler assembler(listing, numbers);
  int64_t inputs = 0;
  for (const Parts::Node& n : nodes) {
    const auto number = static_cast<uint32_t>(graph.nodes.size());
    const Entry& entry = listing.entries[n.entry];
    if (n.input != kAbsent) {
      graph.nodes.push_back(assembler.input(*listing.types[n.input], inputs++));
      values.note(n.input, {number, 0});
    } else {
      std::vector<Value> operands;
      operands.reserve(listing.operands(entry).size());
      for (ValueId v : listing.operands(entry)) operands.push_back(v == kAbsent ? Value{} : *values.find(v));
      graph.nodes.push_back(assembler.node(entry, std::move(operands), graph));
      for (uint16_t r = 0; r < entry.results; ++r) values.note(entry.first_result + r, {number, r});
    }
    const uint32_t line = listing.line(n.entry);
    if (!line) continue;
    const uint32_t* known = lines.find(line);
    if (!known) {
      known = lines.note(line, static_cast<uint32_t>(graph.lines.size()));
      graph.lines.push_back(line_text(line));
    }
    graph.nodes.back().line = *known;
  }
  for (const Parts::Input& x : parts.inputs_of(part)) {
    graph.donated.push_back(x.donated);
    graph.fleeting.push_back(x.fleeting);
  }
  for (const Parts::Output& x : parts.outputs_of(part)) graph.outputs.push_back(x.in_part);
  return graph;
}

}  // namespace lazuli::ir
