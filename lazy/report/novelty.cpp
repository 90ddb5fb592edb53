#include "lazy/report/novelty.h"

#include <algorithm>

namespace lazuli::lazy {
namespace {

uint32_t line_of(const Trace& t, size_t entry) { return entry < t.lines.size() ? t.lines[entry] : 0; }

// How many entries both begin with, as far as hashes tell.
size_t common(const Trace& a, const Trace& b) {
  const size_t most = std::min(a.size(), b.size());
  size_t least = 0, end = most + 1;
  while (end - least > 1) {
    const size_t middle = least + (end - least) / 2;
    (a.prefix_hashes[middle - 1] == b.prefix_hashes[middle - 1] ? least : end) = middle;
  }
  return least;
}

std::string text(std::span<const int64_t> numbers) {
  std::string out = "[";
  for (size_t i = 0; i < numbers.size(); ++i) out += (i ? ", " : "") + std::to_string(numbers[i]);
  return out + "]";
}

bool is_input(ir::Op op) { return op == ir::Op::input || op == ir::Op::uninitialized; }

// Of an input's entry: [1, number, dtype, sizes...].
std::string type_of_input(std::span<const int64_t> attrs) {
  return std::string(ir::name(static_cast<ir::DType>(attrs[2]))) + text(attrs.subspan(3));
}

size_t entries_at(const Trace& t, uint32_t line, size_t from) {
  return static_cast<size_t>(
      std::count(t.lines.begin() + static_cast<ptrdiff_t>(std::min(from, t.lines.size())), t.lines.end(), line));
}

// The first attribute that differs, by the name that the row gives it.
bool differing_attribute(const Trace& now, const Entry& a, const Trace& before, const Entry& b, Novelty& d) {
  const auto x = now.attrs(a), y = before.attrs(b);
  const ir::OpInfo& row = ir::info(a.op);
  size_t i = 0, j = 0;
  for (size_t list = 0; i < x.size() && j < y.size() && x[i] >= 0 && y[j] >= 0; ++list) {
    const auto n = static_cast<size_t>(x[i]), m = static_cast<size_t>(y[j]);
    if (i + 1 + n > x.size() || j + 1 + m > y.size()) break;  // a leaf's type stands behind its attributes
    const auto p = x.subspan(i + 1, n), q = y.subspan(j + 1, m);
    if (!std::ranges::equal(p, q)) {
      const std::string_view attribute = list < row.attrs.size() ? row.attrs[list] : "";
      d.what += attribute.empty() ? "" : ": " + std::string(attribute);
      d.now = text(p), d.before = text(q);
      return true;
    }
    i += 1 + n, j += 1 + m;
  }
  if (std::ranges::equal(x, y)) return false;
  d.now = text(x), d.before = text(y);
  return true;
}

void compare(const Trace& now, const Trace& before, size_t at, Novelty& d) {
  d.entry = at;
  d.line = line_of(now, at), d.line_before = line_of(before, at);
  if (at == now.size() && at == before.size()) {
    d.kind = Novelty::Kind::Results;
    d.line = line_of(now, at - 1), d.line_before = line_of(before, at - 1);
    d.what = "other results are still needed";
    return;
  }
  const Entry* a = at < now.size() ? &now.entries()[at] : nullptr;
  const Entry* b = at < before.size() ? &before.entries()[at] : nullptr;
  d.what = a ? ir::name(a->op) : "the end";
  d.now = d.what, d.before = b ? ir::name(b->op) : "the end";
  if (a && b && a->op == b->op) {
    if (is_input(a->op)) {
      d.kind = Novelty::Kind::Shape;
      d.what = "an input's shape";
      d.now = type_of_input(now.attrs(*a)), d.before = type_of_input(before.attrs(*b));
      if (d.now != d.before) return;
    } else if (a->operand_count == b->operand_count && differing_attribute(now, *a, before, *b, d)) {
      d.kind = Novelty::Kind::Number;
      return;
    }
  }
  const size_t more = entries_at(now, d.line, at), less = entries_at(before, d.line, at);
  if (d.line && more != less) {
    d.kind = Novelty::Kind::Length;
    d.what = "a loop or a list";
    d.now = std::to_string(more) + " operations from here on", d.before = std::to_string(less);
    return;
  }
  if (d.line_before && entries_at(now, d.line_before, at) != entries_at(before, d.line_before, at)) {
    d.kind = Novelty::Kind::Length;
    d.what = "a loop or a list";
    d.now = std::to_string(entries_at(now, d.line_before, at)) + " operations from here on";
    d.before = std::to_string(entries_at(before, d.line_before, at));
    std::swap(d.line, d.line_before);
    return;
  }
  d.kind = Novelty::Kind::Operation;
}

}  // namespace

const char* name(Novelty::Kind kind) {
  switch (kind) {
    case Novelty::Kind::First:
      return "first";
    case Novelty::Kind::Shape:
      return "shape";
    case Novelty::Kind::Number:
      return "number";
    case Novelty::Kind::Length:
      return "length";
    case Novelty::Kind::Operation:
      return "operation";
    case Novelty::Kind::Results:
      return "results";
  }
  return "?";
}

// What a trace of one line begins with is mostly an input, whose shape may differ.
const NewTraces::Known* NewTraces::begins_at_the_same_line(const Trace& trace) const {
  if (trace.empty() || line_of(trace, 0) == 0) return nullptr;
  const auto same = [&](const Known& k) {
    return !k.code.empty() && line_of(k.code, 0) == line_of(trace, 0) &&
           k.code.entries()[0].op == trace.entries()[0].op;
  };
  const auto found = std::find_if(known_.rbegin(), known_.rend(), same);
  return found == known_.rend() ? nullptr : &*found;
}

NewTraces& NewTraces::get() {
  static auto* n = new NewTraces;  // outlives every thread
  return *n;
}

Novelty NewTraces::look(const Trace& trace, uint64_t key) {
  Novelty d;
  const Known* nearest = nullptr;
  size_t most = 0;
  for (const Known& k : known_)
    if (const size_t n = common(trace, k.code); !nearest || n >= most) nearest = &k, most = n;
  if (most == 0) nearest = begins_at_the_same_line(trace);
  if (nearest) {
    compare(trace, nearest->code, most, d);
    d.key_before = nearest->key;
  } else {
    d.line = line_of(trace, 0);
    d.what = trace.empty() ? "" : ir::name(trace.entries()[0].op);
  }
  if (known_.size() == kKept) known_.pop_front();
  known_.push_back({trace.without_cells(), key});
  return d;
}

}  // namespace lazuli::lazy
