#include "ir/parts.h"
#include <array>
#include <unordered_map>
#include "ir/hash.h"
#include "ir/infer.h"

namespace lazuli::ir {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr int64_t kWhole = Parts::kWhole;
constexpr uint32_t kMostHeavy = 8;  // in a row
constexpr uint32_t kLong = 1024;    // entries after which a part ends at the next place that looks like it
constexpr uint64_t kPlaces = 16;    // about one place in so many does

// What costs so much that others may well wait for it: a kernel of its own, or several.
bool is_heavy(Op op) { return is_contraction(op) || info(op).kind == Kind::External; }
// What every part that reads it has for itself.
bool is_shared(Op op) { return is_view(op) || (is_leaf(op) && op != Op::input); }
// What one part computes.
bool is_computed(Op op) { return !is_shared(op) && op != Op::input; }

// Which of an op's attributes are numbers in the sense of Parts: a bit for each.
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

// Calls f(list, whether it holds numbers) for each of an op's attributes, as they are recorded; a leaf's type behind them is none.
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

class Cutter {
 public:
  Cutter(const Listing& listing, std::span<const ValueId> live, const std::vector<bool>& donated)
      : listing_(listing), donated_(donated), entries_(listing.entries.size()), values_(listing.types.size()) {
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
  struct EntryFacts {
    uint32_t part = 0;
    bool needed = false;
  };
  struct ValueFacts {
    uint32_t owner = 0;         // its entry
    ValueId base = 0;           // what it is a view of
    uint32_t last_use = kNone;  // the last part that reads it or a view of it
    uint32_t written = kNone;   // the last part that has it, and what it is there
    Value in_part;
    bool live = false;
  };

  void find_owners() {
    for (uint32_t e = 0; e < entries_.size(); ++e) {
      const Entry& entry = listing_.entries[e];
      const bool view = is_view(entry.op);
      for (uint16_t r = 0; r < entry.results; ++r) {
        ValueFacts& v = values_[entry.first_result + r];
        v.owner = e;
        v.base = view ? values_[listing_.operands(entry)[0]].base : entry.first_result + r;
      }
    }
  }

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
        if (v != kAbsent) entries_[values_[v].owner].needed = true;
    }
  }

  // Whether a long part may end before the entry: a few of the ops before it decide.
  bool looks_like_a_place(uint32_t e) const {
    uint64_t h = 0;
    for (uint32_t i = e < 4 ? 0 : e - 4; i <= e; ++i) h = mix(h, static_cast<uint64_t>(listing_.entries[i].op));
    return h % kPlaces == 0;
  }

  void place_cuts() {
    uint32_t part = 0, count = 0, heavy_in_row = 0;
    auto seam = listing_.seams.begin();
    for (uint32_t e = 0; e < entries_.size(); ++e) {
      EntryFacts& facts = entries_[e];
      const Op op = listing_.entries[e].op;
      const bool at_seam = seam != listing_.seams.end() && *seam <= e;
      if (facts.needed && is_computed(op)) {
        const bool heavy = is_heavy(op), row_ends = heavy_in_row == 0 || heavy_in_row == kMostHeavy;
        const bool cut = (heavy && row_ends) || at_seam || (count >= kLong && looks_like_a_place(e));
        if (count > 0 && cut) ++part, count = 0, heavy_in_row = 0;
        if (at_seam)
          while (seam != listing_.seams.end() && *seam <= e) ++seam;
        heavy_in_row = heavy ? heavy_in_row + 1 : 0;
        ++count;
      }
      facts.part = part;
    }
    part_count_ = entries_.empty() ? 0 : part + 1;
  }

  void find_last_uses() {
    for (uint32_t e = 0; e < entries_.size(); ++e) {
      const Entry& entry = listing_.entries[e];
      if (!entries_[e].needed || (is_shared(entry.op) && !any_live(entry))) continue;
      for (ValueId v : listing_.operands(entry))
        if (v != kAbsent) values_[values_[v].base].last_use = entries_[e].part;
    }
  }

  void write_part(uint32_t begin, uint32_t end) {
    first_ = parts_.begin(part_);
    for (uint32_t e = begin; e < end; ++e)
      if (entries_[e].needed && is_computed(listing_.entries[e].op)) write(e);
    for (uint32_t e = begin; e < end; ++e) {
      if (!entries_[e].needed) continue;
      const Entry& entry = listing_.entries[e];
      for (uint16_t r = 0; r < entry.results; ++r) {
        const ValueId v = entry.first_result + r;
        const ValueFacts& facts = values_[v];
        const bool handed_over = is_computed(entry.op) && facts.last_use != kNone && facts.last_use > part_;
        if (!facts.live && !handed_over) continue;
        see_to(v);
        parts_.outputs.push_back({v, facts.in_part});
        parts_.code.push_back(reference(facts.in_part));
      }
    }
    parts_.ends.push_back({static_cast<uint32_t>(parts_.code.size()), static_cast<uint32_t>(parts_.numbers.size()),
                           static_cast<uint32_t>(parts_.nodes.size()), static_cast<uint32_t>(parts_.inputs.size()),
                           static_cast<uint32_t>(parts_.scalars.size()), static_cast<uint32_t>(parts_.outputs.size())});
  }

  static int64_t reference(Value v) { return static_cast<int64_t>(v.node) << 16 | v.result; }

  // Writes what the part needs of a value, if it is not there yet.
  void see_to(ValueId v) {
    chain_.clear();
    while (values_[v].written != part_) {
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

  // Where the memory of a view begins in that of a value from elsewhere, if it is a piece of that; else kWhole. The part gets
  // the piece alone, so that it is the same part wherever the piece is.
  int64_t window_offset(ValueId v) const {
    const Entry& entry = listing_.entries[values_[v].owner];
    if (!is_view(entry.op)) return kWhole;
    const Type &type = *listing_.types[v], &operand = *listing_.types[listing_.operands(entry)[0]];
    if (type.bytes() >= operand.bytes() || type.numel() == 0) return kWhole;
    const EntryFacts& base = entries_[values_[values_[v].base].owner];
    const Op base_op = listing_.entries[values_[values_[v].base].owner].op;
    if (is_shared(base_op) || (is_computed(base_op) && base.part == part_)) return kWhole;
    return dense_offset(v);
  }

  // Bytes from the beginning of what v is a view of, if v lies there dense and row-major; else kWhole.
  int64_t dense_offset(ValueId v) const {
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

  void write(uint32_t e) {
    for (ValueId v : listing_.operands(listing_.entries[e]))
      if (v != kAbsent) see_to(v);
    write_node(e);
  }

  // Its operands are there.
  void write_node(uint32_t e) {
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
      facts.written = part_;
      facts.in_part = {static_cast<uint32_t>(parts_.nodes.size()) - first_.nodes, r};
    }
    parts_.nodes.push_back({e, kAbsent});
  }

  void write_attrs(Op op, std::span<const int64_t> flat) {
    for_lists(op, flat, [&](std::span<const int64_t> values, bool are_numbers) {
      parts_.code.push_back(static_cast<int64_t>(values.size()));
      std::vector<int64_t>& to = are_numbers ? parts_.numbers : parts_.code;
      to.insert(to.end(), values.begin(), values.end());
    });
  }

  void write_type(const Type& type) {
    parts_.code.push_back(static_cast<int64_t>(type.dtype) | type.rank() << 32);
    parts_.numbers.insert(parts_.numbers.end(), type.shape.begin(), type.shape.end());
  }

  // What an earlier part made, or an input of the listing.
  void write_input(ValueId v, int64_t offset) {
    ValueFacts& facts = values_[v];
    const Entry& entry = listing_.entries[facts.owner];
    const bool last = !values_[facts.base].live && values_[facts.base].last_use == part_;
    const bool outside = entry.op == Op::input;
    const auto position = outside ? static_cast<size_t>(listing_.attrs(entry)[1]) : 0;
    const bool fleeting = !outside || (position < donated_.size() && donated_[position]);
    const bool donated = last && offset == kWhole && fleeting;
    const Type& type = *listing_.types[v];
    std::vector<int64_t>& code = parts_.code;
    code.push_back(static_cast<int64_t>(Op::input) | int64_t{donated} << 16 | int64_t{fleeting} << 17);
    write_type(type);
    facts.written = part_;
    facts.in_part = {static_cast<uint32_t>(parts_.nodes.size()) - first_.nodes, 0};
    parts_.nodes.push_back({facts.owner, v});
    parts_.inputs.push_back({facts.base, offset, type.bytes(), last, donated, fleeting});
  }

  const Listing& listing_;
  const std::vector<bool>& donated_;
  std::vector<EntryFacts> entries_;
  std::vector<ValueFacts> values_;
  Parts parts_;
  uint32_t part_count_ = 0, part_ = 0;
  Parts::Ends first_;  // where the part's lists begin
  std::vector<ValueId> chain_;
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
    std::vector<const Type*> in;
    for (Value v : node.inputs) in.push_back(v ? &graph.type(v) : nullptr);
    infer(e.op, in, node.attrs, node.types);
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
};

}  // namespace

Attrs unpack(std::span<const int64_t> flat, Op op) {
  Attrs attrs;
  for_lists(op, flat, [&](std::span<const int64_t> values, bool) { attrs.add(values); });
  return attrs;
}

Parts cut(const Listing& listing, std::span<const ValueId> live, const std::vector<bool>& donated) {
  return Cutter(listing, live, donated).run();
}

Graph graph_of(const Listing& listing, const Parts& parts, size_t part, std::string (*line_text)(uint32_t),
               SizeSpan numbers) {
  const Parts::Ends begin = parts.begin(part), end = parts.ends[part];
  Graph graph;
  graph.nodes.reserve(end.nodes - begin.nodes);
  graph.input_count = end.inputs - begin.inputs;
  graph.scalar_count = end.scalars - begin.scalars;
  std::unordered_map<ValueId, Value> values;
  std::unordered_map<uint32_t, uint32_t> lines;
  Assembler assembler(listing, numbers);
  int64_t inputs = 0;
  for (const Parts::Node& n : std::span(parts.nodes).subspan(begin.nodes, end.nodes - begin.nodes)) {
    const auto number = static_cast<uint32_t>(graph.nodes.size());
    const Entry& entry = listing.entries[n.entry];
    Node node;
    if (n.input != kAbsent) {
      node = assembler.input(*listing.types[n.input], inputs++);
      values[n.input] = {number, 0};
    } else {
      std::vector<Value> operands;
      for (ValueId v : listing.operands(entry)) operands.push_back(v == kAbsent ? Value{} : values.at(v));
      node = assembler.node(entry, std::move(operands), graph);
      for (uint16_t r = 0; r < entry.results; ++r) values[entry.first_result + r] = {number, r};
    }
    if (const uint32_t line = listing.line(n.entry)) {
      const auto [it, fresh] = lines.try_emplace(line, static_cast<uint32_t>(graph.lines.size()));
      if (fresh) graph.lines.push_back(line_text(line));
      node.line = it->second;
    }
    graph.nodes.push_back(std::move(node));
  }
  for (const Parts::Input& x : std::span(parts.inputs).subspan(begin.inputs, graph.input_count)) {
    graph.donated.push_back(x.donated);
    graph.fleeting.push_back(x.fleeting);
  }
  for (uint32_t i = begin.outputs; i < end.outputs; ++i) graph.outputs.push_back(parts.outputs[i].in_part);
  return graph;
}

}  // namespace lazuli::ir
