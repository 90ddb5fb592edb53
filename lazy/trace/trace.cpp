#include "lazy/trace/trace.h"

#include <algorithm>
#include <ranges>
#include "ir/body.h"

namespace lazuli::lazy {

void Trace::restart(uint64_t epoch) {
  epoch_ = epoch;
  hash_ = kSeed;
  pending_bytes_ = 0;
  entries_.clear();
  operands_.clear();
  attrs_.clear();
  cells_.clear();
  scalars_.clear();
  seams_.clear();
  inputs_.clear();
  windows_.clear();
  images_.clear();
  lines.clear();
  prefix_hashes.clear();
  segments.clear();
  derivatives.clear();
  draws.clear();
  peeks = 0;
  is_kept_from = false;
}

std::optional<Trace::Excerpt> Trace::since(const Place& begin) const {
  for (size_t i = begin.entries; i < entries_.size(); ++i)
    if (const ir::Op op = entries_[i].op; op == ir::Op::input || op == ir::Op::uninitialized || op == ir::Op::scalar)
      return {};
  auto from = [](const auto& list, size_t first) {
    return std::vector(list.begin() + static_cast<ptrdiff_t>(first), list.end());
  };
  Excerpt e{begin,
            from(entries_, begin.entries),
            from(operands_, begin.operands),
            from(attrs_, begin.attrs),
            from(prefix_hashes, begin.entries),
            {},
            {}};
  for (uint32_t seam : seams_)
    if (seam >= begin.entries) e.seams.push_back(seam - static_cast<uint32_t>(begin.entries));
  for (size_t v = begin.values; v < cells_.size(); ++v) {
    if (!cells_[v]) return {};
    e.types.push_back(cells_[v]->type);
  }
  return e;
}

void Trace::append(const Excerpt& e, std::span<const int64_t> numbers) {
  for (uint32_t seam : e.seams) seams_.push_back(static_cast<uint32_t>(entries_.size()) + seam);
  entries_.insert(entries_.end(), e.entries.begin(), e.entries.end());
  operands_.insert(operands_.end(), e.operands.begin(), e.operands.end());
  attrs_.insert(attrs_.end(), e.attrs.begin(), e.attrs.end());
  prefix_hashes.insert(prefix_hashes.end(), e.hashes.begin(), e.hashes.end());
  for (const ir::Type& type : e.types) cells_.push_back(new_cell(static_cast<ValueId>(cells_.size()), type));
  if (!e.hashes.empty()) hash_ = e.hashes.back();
  scalars_.insert(scalars_.end(), numbers.begin(), numbers.end());
}

uint64_t Trace::hash_after(uint64_t hash, const Entry& e, std::span<const ValueId> operands,
                           std::span<const int64_t> attrs) {
  uint64_t h = mix(hash, static_cast<uint64_t>(e.op) | uint64_t(e.results) << 16 | uint64_t(operands.size()) << 32);
  for (ValueId v : operands) h = mix(h, v);
  for (int64_t a : attrs) h = mix(h, static_cast<uint64_t>(a));
  return for_lookup(h);
}

void Trace::settle_segments() {
  for (const SegmentRef& s : segments)
    if (s.shared()) s->settle(*this);
  segments.clear();
}

ValueId Trace::append(ir::Op op, std::span<const ValueId> operands, std::span<const int64_t> attrs, uint16_t results) {
  ValueId first = append_entry(op, operands, attrs, results);
  for (uint16_t i = 0; i < results; ++i) cells_.emplace_back();
  return first;
}

ValueId Trace::append_entry(ir::Op op, std::span<const ValueId> operands, std::span<const int64_t> attrs,
                            uint16_t results) {
  Entry e{op,
          results,
          static_cast<uint32_t>(operands_.size()),
          static_cast<uint32_t>(operands.size()),
          static_cast<uint32_t>(attrs_.size()),
          static_cast<uint32_t>(attrs.size()),
          static_cast<ValueId>(cells_.size())};
  hash_ = hash_after(hash_, e, operands, attrs);
  for (ValueId v : operands) operands_.push_back(v);
  if (!attrs.empty()) attrs_.insert(attrs_.end(), attrs.begin(), attrs.end());
  entries_.push_back(e);
  prefix_hashes.push_back(hash_);
  return e.first_result;
}

CellRef Trace::new_cell(ValueId id, const ir::Type& type) {
  auto* cell = new Cell;
  cell->state.store(Cell::State::Pending, std::memory_order_relaxed);
  cell->id = id;
  cell->epoch = epoch_;
  cell->type = type;
  pending_bytes_ += type.bytes();
  return CellRef(cell);
}

ValueId Trace::enter(Cell* cell) {
  if (cell->channels_last) [[unlikely]]
    return enter_image(cell);
  const ir::Type& type = cell->type;
  ir::Dims attrs;
  bool ready = cell->state == Cell::State::Ready;
  // The input's type is part of the code, so it is kept with the entry's attributes.
  attrs.push_back(1);
  attrs.push_back(ready ? static_cast<int64_t>(inputs_.size()) : 0);
  attrs.push_back(static_cast<int64_t>(type.dtype));
  attrs.append(type.shape);
  ValueId id = append(ready ? ir::Op::input : ir::Op::uninitialized, {}, attrs, 1);
  if (ready) inputs_.push_back(id);
  cells_[id] = CellRef::share(cell);
  cell->epoch = epoch_;
  cell->id = id;
  return id;
}

ValueId Trace::enter_image(Cell* cell) {
  constexpr int64_t kBack[] = {4, 0, 3, 1, 2};
  const ValueId image = use(cell->channels_last.get());
  const ValueId id = append(ir::Op::permute, {&image, 1}, kBack, 1);
  cells_[id] = CellRef::share(cell);
  images_.push_back(id);
  cell->epoch = epoch_;
  cell->id = id;
  return id;
}

void Trace::keep_as_image(ValueId v) {
  constexpr int64_t kOrder[] = {4, 0, 2, 3, 1};
  Cell& cell = *cells_[v];
  const ir::Dims shape = cell.type.shape;
  const ValueId id = append(ir::Op::permute, {&v, 1}, kOrder, 1);
  define(id, {cell.type.dtype, {shape[0], shape[2], shape[3], shape[1]}});
  cell.channels_last = cells_[id];
  cell.state = Cell::State::Ready;
  cell.epoch = 0;
}

void Trace::let_go_of_images() {
  for (ValueId v : images_)
    if (Cell& c = *cells_[v]; c.references.load(std::memory_order_acquire) == 1) c.channels_last = CellRef();
}

Cell& Trace::window(const Cell& whole, int64_t offset, const ir::Type& type) {
  char* data = static_cast<char*>(whole.buffer.data) + offset * ir::item_size(type.dtype);
  for (const CellRef& w : windows_)
    if (w->buffer.data == data && w->type == type) return *w;
  auto* cell = new Cell;
  cell->state = Cell::State::Ready;
  cell->type = type;
  cell->buffer = {data, static_cast<size_t>(type.bytes()), whole.buffer.owner};
  windows_.emplace_back(cell);
  return *cell;
}

ValueId Trace::scalar(int64_t bits, ir::DType dtype) {
  int64_t attrs[] = {1, static_cast<int64_t>(scalars_.size()), static_cast<int64_t>(dtype)};
  scalars_.push_back(bits);
  return append(ir::Op::scalar, {}, attrs, 1);
}

ValueId Trace::constant(double value, ir::DType dtype) {
  int64_t bits;
  if (ir::is_floating(dtype))
    std::memcpy(&bits, &value, sizeof bits);
  else
    bits = static_cast<int64_t>(value);
  int64_t attrs[] = {1, bits, static_cast<int64_t>(dtype)};
  return append(ir::Op::constant, {}, attrs, 1);
}

ir::Listing Trace::listing() const {
  ir::Listing l{entries_, operands_, attrs_, {}, lines, seams_};
  l.types.reserve(cells_.size());
  for (const CellRef& c : cells_) l.types.push_back(c ? &c->type : nullptr);
  return l;
}

bool Trace::would_be_missed(const Entry& e) const {
  const ir::OpInfo& row = ir::info(e.op);
  if (e.results == 0) return false;
  if (row.kind == ir::Kind::External || row.checks_index) return true;
  return ir::is_elementwise(e.op) && ir::can_fail(e.op) && !ir::is_floating(cells_[e.first_result]->type.dtype);
}

std::vector<ValueId> Trace::live() const {
  std::vector<ValueId> out;
  for (ValueId v = 0; v < cells_.size(); ++v) {
    const Cell* c = cells_[v].get();
    // An input that somebody still holds is ready already.
    if (c && c->state == Cell::State::Pending && c->references.load(std::memory_order_acquire) > 1) out.push_back(v);
  }
  if (std::ranges::none_of(entries_, [&](const Entry& e) { return would_be_missed(e); })) return out;
  std::vector<uint8_t> is_needed(value_count());
  for (ValueId v : out) is_needed[v] = true;
  const size_t read = out.size();
  for (const Entry& e : std::views::reverse(entries_)) {
    bool is_read = false;
    for (uint16_t i = 0; i < e.results; ++i) is_read |= is_needed[e.first_result + i] != 0;
    if (!is_read) {
      if (!would_be_missed(e)) continue;
      out.push_back(e.first_result);
    }
    for (ValueId v : operands(e))
      if (v != kAbsent) is_needed[v] = true;
  }
  if (out.size() > read) std::ranges::sort(out);
  return out;
}

std::optional<std::pair<Trace, ValueId>> Trace::slice(ValueId wanted, size_t most) const {
  std::vector<bool> is_wanted(value_count());
  is_wanted[wanted] = true;
  std::vector<size_t> taken;  // latest first
  for (size_t i = entries_.size(); i-- > 0;) {
    const Entry& e = entries_[i];
    const auto first = is_wanted.begin() + e.first_result;
    if (std::find(first, first + e.results, true) == first + e.results) continue;
    if (taken.size() == most) return {};
    taken.push_back(i);
    for (ValueId v : operands(e))
      if (v != kAbsent) is_wanted[v] = true;
  }
  Trace s(0);
  std::vector<ValueId> to(value_count(), kAbsent);
  for (size_t k = taken.size(); k-- > 0;) {
    const Entry& e = entries_[taken[k]];
    std::vector<ValueId> in;
    for (ValueId v : operands(e)) in.push_back(v == kAbsent ? kAbsent : to[v]);
    std::vector<int64_t> own(attrs(e).begin(), attrs(e).end());
    // After the list's length: the place among inputs or numbers.
    if (e.op == ir::Op::input) own[1] = static_cast<int64_t>(s.inputs_.size());
    if (e.op == ir::Op::scalar)
      s.scalars_.push_back(scalars_[std::exchange(own[1], static_cast<int64_t>(s.scalars_.size()))]);
    const ValueId id = s.append(e.op, in, own, e.results);
    if (e.op == ir::Op::input) s.inputs_.push_back(id);
    for (uint16_t r = 0; r < e.results; ++r) {
      const CellRef& cell = cells_[e.first_result + r];
      to[e.first_result + r] = id + r;
      if (e.op == ir::Op::input || e.op == ir::Op::uninitialized)
        s.cells_[id + r] = cell;
      else if (cell)
        s.define(id + r, cell->type);
    }
    if (taken[k] < lines.size()) s.lines.push_back(lines[taken[k]]);
  }
  return std::pair(std::move(s), to[wanted]);
}

void Trace::find_external_calls(std::unordered_set<int64_t>& calls) const {
  for (const Entry& e : entries_)
    if (e.op == ir::Op::external) calls.insert(attrs(e)[1]);  // after the list's length
}

bool Trace::same_code(const Trace& o) const {
  auto same = [](const auto& a, const auto& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(a[0])) == 0);
  };
  if (!same(operands_, o.operands_) || !same(attrs_, o.attrs_) || entries_.size() != o.entries_.size()) return false;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry &a = entries_[i], &b = o.entries_[i];
    if (a.op != b.op || a.results != b.results || a.operand_count != b.operand_count || a.attr_count != b.attr_count)
      return false;
  }
  return true;
}

Trace Trace::without_cells() const {
  Trace t(0);
  t.hash_ = hash_;
  t.entries_ = entries_;
  t.operands_ = operands_;
  t.attrs_ = attrs_;
  t.lines = lines;
  t.prefix_hashes = prefix_hashes;
  return t;
}

}  // namespace lazuli::lazy
