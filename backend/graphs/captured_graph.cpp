#include "backend/graphs/captured_graph.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include "backend/device/generator.h"
#include "lazy/run/reads.h"
#include "lazy/run/trace_cache.h"

namespace lazuli::backend {
namespace {

using lazy::Block;
using lazy::CellRef;
using lazy::Order;
using lazy::Recording;
using lazy::Trace;
using lazy::ValueId;
using Tensors = CapturedGraph::Tensors;

// Whether it is a tensor of the device whose memory has its numbers.
bool is_ordinary(const at::Tensor& t) {
  return t.defined() && t.is_privateuseone() && t.layout() == c10::kStrided && !t.is_conj() && !t.is_neg();
}

// Sizes, strides and types of tensors of the device; the numbers come last. False: one is of another kind.
bool describe(const Tensors& inputs, at::IntArrayRef sizes, std::vector<int64_t>& key) {
  key.clear();
  for (const at::Tensor& t : inputs) {
    if (!is_ordinary(t)) return false;
    const auto* impl = t.unsafeGetTensorImpl();
    key.push_back(static_cast<int64_t>(t.scalar_type()) | impl->dim() << 8);
    key.insert(key.end(), impl->sizes().begin(), impl->sizes().end());
    key.insert(key.end(), impl->strides().begin(), impl->strides().end());
  }
  key.insert(key.end(), sizes.begin(), sizes.end());
  return true;
}

bool is_expanded(const at::Tensor& t, int64_t d) { return t.stride(d) == 0 && t.size(d) > 1; }

// The tensor before it was expanded, as far as its strides tell.
at::Tensor unexpanded(const at::Tensor& t) {
  ir::Dims sizes;
  bool is_other = false;
  for (int64_t d = 0; d < t.dim(); ++d) {
    sizes.push_back(is_expanded(t, d) ? 1 : t.size(d));
    is_other |= is_expanded(t, d);
  }
  return is_other ? lazy::make_view(t, lazy::to_ref(sizes), t.strides(), t.storage_offset()) : t;
}

uint64_t hash_of(const std::vector<int64_t>& key) {
  uint64_t h = key.size();
  for (int64_t k : key) h = ir::mix(h, static_cast<uint64_t>(k));
  return h;
}

// The order of its dimensions in memory, also where it has gaps.
Order order_of(const at::Tensor& t) {
  Order order;
  if (lazy::memory_order(t.sizes(), t.strides(), order)) return order;
  order.clear();
  for (int64_t d = 0; d < t.dim(); ++d) order.push_back(d);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return t.stride(a) > t.stride(b); });
  return std::ranges::is_sorted(order) ? Order() : order;
}

ir::Value value_of(Recording& r, const at::Tensor& t) {
  const at::Tensor memory = unexpanded(t);
  return r.value(memory, order_of(memory));
}

// A tensor of the same sizes over the value that value_of() gave.
at::Tensor stand_in(Recording& r, const at::Tensor& t, ir::Value v) {
  const at::Tensor memory = unexpanded(t);
  at::Tensor s = r.tensor(v, t.scalar_type(), order_of(memory));
  if (s.sizes() == t.sizes() && s.strides() == t.strides()) return s;
  Order order;
  const bool has_gaps = !lazy::memory_order(memory.sizes(), memory.strides(), order);
  ir::Dims strides = lazy::to_dims(has_gaps ? s.strides() : t.strides());
  for (int64_t d = 0; d < t.dim(); ++d)
    if (is_expanded(t, d)) strides[static_cast<size_t>(d)] = 0;
  return lazy::make_view(s, t.sizes(), lazy::to_ref(strides), 0);
}

// Whether a window on the stand-in is at the same place in the input.
bool lie_alike(const at::Tensor& input, const at::Tensor& stand_in) { return input.strides() == stand_in.strides(); }

// A view as an operator makes it: what is written to it counts as written to its base, and the other way round.
// Autograd asks when it reads what a graph has saved for its backward.
at::Tensor view_of(const at::Tensor& base, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset) {
  const at::Tensor view = lazy::make_view(base, sizes, strides, offset);
  if (!base.is_inference())
    view.unsafeGetTensorImpl()->set_version_counter(base.unsafeGetTensorImpl()->version_counter());
  return view;
}

// The results as a caller gets them, in place of those over stand-ins.
at::Tensor of_input(const at::Tensor& result, const at::Tensor& input, const at::Tensor& stand_in) {
  if (result.is_same(stand_in)) return input;
  if (!lie_alike(input, stand_in) || result.scalar_type() != input.scalar_type() || result.is_conj() || result.is_neg())
    return result;  // has the same numbers
  return view_of(input, result.sizes(), result.strides(), input.storage_offset() + result.storage_offset());
}

void write(Recording& r, const at::Tensor& t, ir::Value v) {
  r.write(t, v);
  if (!t.is_inference()) t.unsafeGetTensorImpl()->bump_version();
}

}  // namespace

CapturedGraph::Call CapturedGraph::call(const Tensors& inputs, at::IntArrayRef sizes) {
  static thread_local std::vector<int64_t> key;
  if (!describe(inputs, sizes, key)) return {};
  Call out;
  std::unique_lock lock(lazy::recorder().mutex);
  const uint64_t hash = hash_of(key);
  auto found = std::ranges::find_if(known_, [&](const Recorded& k) { return k.hash == hash && k.key == key; });
  if (found == known_.end()) return out;
  if (found != known_.begin()) known_.splice(known_.begin(), known_, found);
  if (repeat(*found, inputs, out.results)) out.number = found->number;
  return out;
}

bool CapturedGraph::repeat(Recorded& known, const Tensors& inputs, Tensors& results) {
  if (!known.block.draws().empty() && draws_as_eager()) return false;
  for (const auto& [id, call] : known.calls) lazy::remember_external_call(id, call);
  Recording r;
  static thread_local std::vector<ValueId> values;
  values.clear();
  for (size_t i = 0; i < inputs.size(); ++i) {
    values.push_back(r.id(value_of(r, inputs[i])));
    if (values[known.alike[i]] != values[i]) return false;
  }
  std::vector<int64_t> numbers = known.block.numbers();
  for (const Block::Draw& d : known.block.draws()) {
    const Generator::Draw drawn = generator_of(std::nullopt).draw(d.count);
    numbers[d.seed] = drawn.seed, numbers[d.offset] = drawn.offset;
  }
  const ValueId first = r.repeat(known.block, values, numbers);
  const auto value = [&](Block::Ref ref) { return r.numbered(ref.is_input ? values[ref.index] : first + ref.index); };
  for (const Result& result : known.results) {
    const auto sizes = lazy::to_ref(result.sizes), strides = lazy::to_ref(result.strides);
    switch (result.kind) {
      case Result::Input:
        results.push_back(inputs[result.index]);
        break;
      case Result::ViewOfInput: {
        const at::Tensor& base = inputs[result.index];
        results.push_back(view_of(base, sizes, strides, base.storage_offset() + result.offset));
        break;
      }
      case Result::Fresh:
        results.push_back(r.tensor(value(known.fresh[result.index]), result.type, sizes, strides));
        break;
      case Result::Earlier:
        results.push_back(results[result.index]);
        break;
      case Result::ViewOfFresh:
        results.push_back(view_of(results[result.index], sizes, strides, result.offset));
        break;
      case Result::WindowOfFresh: {
        const int64_t n = result.elements;
        const at::Tensor all = r.tensor(value(known.fresh[result.index]), result.type, {n}, {1});
        results.push_back(lazy::make_view(all, sizes, strides, result.offset));
        break;
      }
    }
  }
  for (const Write& w : known.writes) write(r, inputs[w.input], value(w.value));
  return true;
}

std::optional<CapturedGraph::Capture> CapturedGraph::begin(Tensors inputs, at::IntArrayRef sizes) {
  Capture c;
  if (!describe(inputs, sizes, c.key)) return {};
  Recording r;
  for (const at::Tensor& t : inputs) {
    if (!ir::is_native(lazy::to_ir(t.scalar_type()))) return {};
    const ir::Value v = value_of(r, t);
    c.values.push_back(r.id(v));
    c.cells.push_back(CellRef::share(&r.cell(v)));
    c.stand_ins.push_back(stand_in(r, t, v));
  }
  lazy::recorder().alone = std::this_thread::get_id();
  lazy::recorder().is_disturbed = false;
  c.inputs = std::move(inputs);
  c.epoch = r.trace().epoch();
  c.begin = r.trace().place();
  c.reads = lazy::reads;
  return c;
}

CapturedGraph::Call CapturedGraph::end(const Capture& c, const Tensors& results) {
  Recording r;
  Call out;
  std::vector<std::pair<uint32_t, ValueId>> written;
  for (size_t i = 0; i < c.inputs.size(); ++i)
    if (lazy::storage_of(c.stand_ins[i]).cell() != c.cells[i].get())
      written.emplace_back(static_cast<uint32_t>(i), r.id(r.value(c.stand_ins[i])));
  const Trace& trace = r.trace();
  std::optional<Recorded> known;
  const bool is_alone = std::exchange(lazy::recorder().alone, {}) == std::this_thread::get_id();
  if (!is_alone || lazy::recorder().is_disturbed)
    out.why = "another thread recorded meanwhile";
  else if (trace.epoch() != c.epoch)
    out.why = "a trace ended in between";
  else if (lazy::reads != c.reads)
    out.why = "a value was read in between";
  else
    known = recorded(c, results, written, out.why);
  for (const at::Tensor& t : results) {
    const auto found = find_memory(c.stand_ins, t);
    const size_t i = found - c.stand_ins.begin();
    out.results.push_back(found == c.stand_ins.end() ? t : of_input(t, c.inputs[i], *found));
  }
  for (const auto& [i, v] : written) write(r, c.inputs[i], r.numbered(v));
  if (!known) return out;
  out.number = known->number = next_++;
  if (known_.size() == kMost) known_.pop_back();
  known_.push_front(*std::move(known));
  return out;
}

std::optional<CapturedGraph::Recorded> CapturedGraph::recorded(const Capture& c, const Tensors& results,
                                                               const std::vector<std::pair<uint32_t, ValueId>>& written,
                                                               std::string& why) {
  const auto refused = [&](const char* text) {
    why = text;
    return std::nullopt;
  };
  Trace& trace = lazy::recorder().trace;
  lazy::TraceCache::get().take_known_lines(trace, trace.size());
  std::optional<Block> block = Block::take(trace, c.begin, c.values, why);
  if (!block) return {};
  Recorded known{-1, c.key, hash_of(c.key), *std::move(block), {}, {}, {}, {}, {}};
  const auto ref = [&](ValueId v) { return Block::ref(c.begin, c.values, v); };
  for (const ValueId& v : c.values)
    known.alike.push_back(static_cast<uint32_t>(std::ranges::find(c.values, v) - c.values.begin()));
  std::unordered_map<const lazy::LazyStorage*, uint32_t> first;  // result over a storage
  for (const at::Tensor& t : results) {
    if (!is_ordinary(t)) return refused("a result is no ordinary tensor of the device");
    Result result{Result::Fresh,      0, t.scalar_type(), lazy::to_dims(t.sizes()), lazy::to_dims(t.strides()),
                  t.storage_offset(), 0};
    const auto input = find_memory(c.stand_ins, t);
    const auto i = static_cast<uint32_t>(input - c.stand_ins.begin());
    if (input != c.stand_ins.end() &&
        (t.is_same(*input) || (lie_alike(c.inputs[i], *input) && t.scalar_type() == input->scalar_type()))) {
      result.kind = t.is_same(*input) ? Result::Input : Result::ViewOfInput;
      result.index = i;
    } else if (auto [before, is_new] = first.try_emplace(&lazy::storage_of(t), known.results.size()); !is_new) {
      if (results[before->second].scalar_type() != t.scalar_type()) return refused("results of two types share memory");
      // What a graph returns and saves for its backward, too, is one tensor.
      const auto same = std::find_if(results.begin(), results.begin() + known.results.size(),
                                     [&](const at::Tensor& earlier) { return earlier.is_same(t); });
      const auto at = static_cast<size_t>(same - results.begin());
      result.kind = at < known.results.size() ? Result::Earlier : Result::ViewOfFresh;
      result.index = result.kind == Result::Earlier ? static_cast<uint32_t>(at) : before->second;
    } else {
      const lazy::Cell& cell = *lazy::storage_of(t).cell();
      const bool is_known =
          cell.epoch == trace.epoch() && cell.id < trace.value_count() && trace.cell(cell.id) == &cell;
      const auto value = is_known ? ref(cell.id) : std::nullopt;
      const auto bytes = static_cast<int64_t>(t.storage().nbytes()), item = static_cast<int64_t>(t.itemsize());
      if (!value || bytes % item) return refused("a result is no value of the graph");
      if (!lazy::fills_storage(t) || !t.is_non_overlapping_and_dense()) result.kind = Result::WindowOfFresh;
      result.elements = bytes / item;
      result.index = static_cast<uint32_t>(known.fresh.size());
      known.fresh.push_back(*value);
    }
    known.results.push_back(std::move(result));
  }
  for (const auto& [i, v] : written) {
    const auto value = ref(v);
    if (!value) return refused("what is written to an input is no value of the graph");
    known.writes.push_back({i, *value});
  }
  for (int64_t id : known.block.external_calls()) known.calls.emplace_back(id, lazy::external_call_at(id));
  return known;
}

}  // namespace lazuli::backend
