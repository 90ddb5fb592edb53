#include "backend/autograd/region.h"

#include <map>
#include <queue>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include "backend/autograd/light_node.h"
#include "backend/autograd/nodes_on_demand.h"
#include "backend/record/operands.h"
#include "backend/torch_internals/node_hooks.h"
#include "ir/error.h"
#include "lazy/support/config.h"
#include "lazy/support/metrics.h"

namespace lazuli::backend {
namespace {

namespace autograd = torch::autograd;
using at::Tensor;
using autograd::variable_list;

// At most so many steps record in one scope; between two, a trace that is due may end.
constexpr size_t kStepsInAScope = 64;

// Calls `visit` with each step without a node that this one takes anything from.
template <class F>
void for_each_before(const Step& s, F&& visit) {
  for (const History& h : s.inputs)
    if (h.kind() == History::Kind::Step && !h.step().node) visit(h.step());
}

void number(const std::vector<Step*>& steps) {
  for (size_t i = 0; i < steps.size(); ++i) steps[i]->place = static_cast<uint32_t>(i + 1);
}

// As torch's engine goes: the highest sequence number first, of those that nothing is left to flow to.
std::vector<Step*> order_as_they_become_ready(const std::vector<Step*>& steps) {
  std::vector<uint32_t> left(steps.size() + 1);  // by place: steps behind it that are not through
  for (const Step* s : steps) for_each_before(*s, [&](const Step& before) { ++left[before.place]; });
  auto earlier = [](const Step* a, const Step* b) { return a->sequence < b->sequence; };
  std::priority_queue<Step*, std::vector<Step*>, decltype(earlier)> ready;
  for (Step* s : steps)
    if (!left[s->place]) ready.push(s);
  std::vector<Step*> out;
  while (!ready.empty()) {
    out.push_back(ready.top());
    ready.pop();
    for_each_before(*out.back(), [&](Step& before) {
      if (!--left[before.place]) ready.push(&before);
    });
  }
  return out;
}

// All steps without a node behind the roots, each before those that it takes anything from, and in each its place among
// them, from 1 on. Sequence numbers say so, unless several threads have recorded.
std::vector<Step*> find_steps(std::span<const StepOf> roots) {
  std::vector<Step*> found, open;
  auto visit = [&](Step& s) {
    if (s.place) return;
    s.place = 1;
    found.push_back(&s);
    open.push_back(&s);
  };
  for (const StepOf& root : roots) visit(*root.step());
  while (!open.empty()) {
    Step& s = *open.back();
    open.pop_back();
    for_each_before(s, visit);
  }
  auto later = [](const Step* a, const Step* b) { return a->sequence > b->sequence; };
  if (!std::ranges::is_sorted(found, later)) std::ranges::sort(found, later);
  number(found);
  bool in_order = true;
  for (const Step* s : found) for_each_before(*s, [&](const Step& before) { in_order &= before.place > s->place; });
  if (!in_order) number(found = order_as_they_become_ready(found));
  return found;
}

struct Roots {
  struct Root {
    const c10::TensorImpl* tensor;
    uint32_t number;
    uint32_t uses;
  };
  std::vector<Root> roots;
  NodePointer<> region;

  Root* find(const c10::TensorImpl* t) {
    for (Root& r : roots)
      if (r.tensor == t && r.uses) return &r;
    return nullptr;
  }
};
Roots& roots_of_this_thread() {
  static thread_local Roots roots;
  return roots;
}

bool is_usual() {
  const auto keys = c10::impl::tls_local_dispatch_key_set().included_;
  return lazy::config().inline_backward && !autograd::AnomalyMode::is_enabled() &&
         !keys.has(c10::DispatchKey::Python) && !keys.has(c10::DispatchKey::FuncTorchDynamicLayerFrontMode);
}

Tensor as_tensor(c10::TensorImpl* t) {
  return Tensor(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(t));
}
bool has_no_node(const c10::TensorImpl& t) {
  const StepOf own(t);
  return own && !own.step()->node && own.is_current(t);
}

// Whether nothing but our code runs there.
bool is_quiet(autograd::Node& n) { return is_accumulator(n) && !is_hooked(n); }

}  // namespace

bool is_accumulator(const autograd::Node& n) { return typeid(n) == typeid(autograd::AccumulateGrad); }

NodePointer<Region> Region::collect(std::span<const StepOf> roots) {
  std::vector<Step*> steps = find_steps(roots);
  NodePointer<Region> region = own_node_as_it_is(new Region(steps.front()->sequence));
  region->items_.reserve(steps.size());
  for (Step* s : steps) {
    region->items_.push_back({StepRef::share(s), region->slot_count_, 0});
    region->slot_count_ += static_cast<uint32_t>(s->outputs.size());
  }
  auto lead_to = [&](autograd::Edge edge, Source source) -> uint32_t {
    if (!edge.is_valid()) return kNowhere;
    region->items_[source.item].last |= !is_quiet(*edge.function);
    region->add_next_edge(std::move(edge));
    region->sources_.push_back(source);
    return static_cast<uint32_t>(region->sources_.size() - 1) | kEdge;
  };
  for (uint32_t i = 0; i < steps.size(); ++i) {
    region->items_[i].target = static_cast<uint32_t>(region->targets_.size());
    const auto& inputs = steps[i]->inputs;
    for (uint32_t j = 0; j < inputs.size(); ++j) {
      const History& h = inputs[j];
      const bool inside = h.kind() == History::Kind::Step && !h.step().node;
      region->targets_.push_back(inside ? region->items_[h.step().place - 1].slot + h.number()
                                        : lead_to(edge_of(h), {i, j}));
    }
  }
  region->find_pieces();
  for (const StepOf& root : roots) {
    region->roots_.push_back(region->items_[root.step()->place - 1].slot + root.output());
    add_output(*region, root.step()->outputs[root.output()]);
  }
  for (Step* s : steps) s->place = 0;
  return region;
}

void Region::find_pieces() {
  std::vector<uint32_t> readers(slot_count_), of_pieces(slot_count_);
  const auto piece = [&](size_t item) {
    const ViewDerivative* v = items_[item].step->operation().view();
    return v && v->is_piece() ? v : nullptr;
  };
  const auto is_inside = [](uint32_t target) { return target != kNowhere && !(target & kEdge); };
  for (size_t i = 0; i < items_.size(); ++i) {
    const bool gives_piece = piece(i);
    for (size_t t = items_[i].target; t < end_of(i); ++t)
      if (is_inside(targets_[t])) ++readers[targets_[t]], of_pieces[targets_[t]] += gives_piece;
  }
  std::map<uint32_t, std::vector<uint32_t>> wholes;  // items, by slot
  for (uint32_t i = 0; i < items_.size(); ++i) {
    if (!piece(i)) continue;
    const uint32_t slot = targets_[items_[i].target];
    items_[i].gives_piece = slot != kNowhere && !is_inside(slot);  // who is outside puts them together
    if (is_inside(slot) && of_pieces[slot] > 1 && of_pieces[slot] == readers[slot]) wholes[slot].push_back(i);
  }
  for (auto& [slot, items] : wholes) {
    // In the order in which Pieces keeps them; what is empty lies apart from nothing that begins there.
    std::ranges::sort(items, {}, [&](uint32_t i) { return std::pair(piece(i)->numbers[1], piece(i)->numbers[2]); });
    Whole whole{{}, slot, slots_with_pieces()};
    if (!std::ranges::all_of(items, [&](uint32_t i) { return whole.pieces.take(*piece(i)) != SIZE_MAX; })) continue;
    for (uint32_t i : items) {
      items_[i].gives_piece = true;
      targets_[items_[i].target] = slots_with_pieces();
      owners_.push_back(slot);
    }
    wholes_.push_back(std::move(whole));
  }
}

std::span<const Region::Whole> Region::wholes_of(size_t i) const {
  const Item& item = items_[i];
  const auto begin = std::ranges::lower_bound(wholes_, item.slot, {}, &Whole::slot);
  const auto end = std::ranges::lower_bound(wholes_, item.slot + item.step->outputs.size(), {}, &Whole::slot);
  return {begin, end};
}

void Region::release_variables() {
  std::vector<Operation> dropped;  // before the lock: destroyed after it
  dropped.reserve(next_ - released_);
  std::lock_guard lock(graph_mutex());
  for (; released_ < next_; ++released_)
    if (items_[released_].ran && items_[released_].step->operation().keeps())
      dropped.push_back(items_[released_].step->operation().release());
}

Tensor Region::gradient(lazy::Recording& r, size_t edge, ir::Value g) const {
  std::lock_guard lock(graph_mutex());
  return items_[sources_[edge].item].step->operation().input_gradient(r, sources_[edge].input, g);
}

const ViewDerivative* Region::piece(size_t edge) const {
  std::lock_guard lock(graph_mutex());
  const Item& item = items_[sources_[edge].item];
  return item.gives_piece ? item.step->operation().view() : nullptr;
}

// Torch's engine calls it where nodes on CUDA take part, for which it has threads of their own: when a step fails, no
// leaf behind the region has a gradient, as may be with those threads.
variable_list Region::apply(variable_list&& gradients) {
  end_backward();  // nobody asks for roots any more
  std::optional<lazy::Recording> recording;
  auto resume = [&]() -> lazy::Recording& { return recording ? *recording : recording.emplace(); };
  Run run(*this, false, [&](size_t edge) { return task_should_compute_output(edge); });
  for (size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined()) run.seed(resume(), static_cast<uint32_t>(i), resume().value(gradients[i]));
  variable_list out(next_edges_.size());
  while (!run.done()) {
    run.advance(0, resume, [&](size_t edge, lazy::CellRef g) {
      if (!g) return;
      const ir::Value v = resume().cell_value(*g);
      const ViewDerivative* view = piece(edge);
      out[edge] = gradient(resume(), edge, view ? view->spread(resume(), v) : v);
    });
    recording.reset();
  }
  return out;
}

void Region::Run::find_needs(const std::vector<bool>& wanted) {
  needs_.resize(region_.items_.size());
  std::vector<bool> reaches(region_.slot_count_);
  for (size_t i = needs_.size(); i-- > 0;) {
    const Item& item = region_.items_[i];
    for (size_t t = item.target, end = region_.end_of(i); t < end; ++t) {
      const uint32_t target = region_.targets_[t];
      if (target != kNowhere && (target & kEdge ? wanted[target & ~kEdge] : reaches[region_.owner_of(target)]))
        needs_[i] |= mask_of(t - item.target);
    }
    if (needs_[i])
      for (size_t o = 0; o < item.step->outputs.size(); ++o) reaches[item.slot + o] = true;
  }
}

void Region::Run::add(lazy::Recording& r, uint32_t slot, ir::Value g) {
  if (slots_[slot]) {
    slots_[slot] = r.add(slots_[slot], g);
    return;
  }
  slots_[slot] = g;
  open_.push_back(slot);
}

void Region::Run::assemble(lazy::Recording& r, size_t item) {
  for (const Whole& w : region_.wholes_of(item)) {
    const std::span pieces(slots_.data() + w.first, w.pieces.ranges.size());
    if (std::ranges::any_of(pieces, [](ir::Value g) { return static_cast<bool>(g); }))
      add(r, w.slot, w.pieces.whole(r, pieces));
  }
}

void Region::Run::step(lazy::Recording& r, size_t i) {
  Item& item = region_.items_[i];
  assemble(r, i);
  const size_t inputs = region_.end_of(i) - item.target;
  const uint32_t* targets = region_.targets_.data() + item.target;
  std::span<const ir::Value> gradients(slots_.data() + item.slot, item.step->outputs.size());
  c10::SmallVector<ir::Value, 4> out(inputs);
  uint64_t needs = 0;
  if (std::ranges::any_of(gradients, [](ir::Value g) { return static_cast<bool>(g); })) {
    if (!needs_.empty())
      needs = needs_[i];
    else
      for (size_t j = 0; j < inputs; ++j)
        if (targets[j] != kNowhere) needs |= mask_of(j);
  }
  if (needs) {
    BackwardRange range(profiled_, item.step->kind.name, item.step->sequence);
    const Operation& op = item.step->operation();
    op.check();
    if (item.gives_piece)
      out[0] = op.view()->piece_gradient(r, gradients[0]);
    else
      op.backward(r, gradients, needs, {out.data(), out.size()});
    item.ran = true;
  }
  for (size_t j = 0; j < inputs; ++j) {
    const uint32_t target = targets[j];
    const ir::Value g = needs & mask_of(j) ? out[j] : ir::Value{};
    if (target == kNowhere) continue;
    if (target & kEdge)
      outgoing_.emplace_back(target & ~kEdge, g ? lazy::CellRef::share(&r.cell(g)) : lazy::CellRef());
    else if (g)
      add(r, target, g);
  }
}

void Region::Run::record(lazy::Recording& r, uint64_t until) {
  std::lock_guard lock(graph_mutex());
  for (auto& [slot, cell] : held_) slots_[slot] = r.cell_value(*cell);
  held_.clear();
  const size_t first = region_.next_, end = end_of_scope(until);
  auto take_derivatives = [&] {
    for (; region_.next_ < end; ++region_.next_) step(r, region_.next_);
    const uint32_t left = done() ? region_.slot_count_ : region_.items_[end].slot;
    std::erase_if(open_, [&](uint32_t slot) { return region_.owner_of(slot) < left; });
  };
  BackwardRecords& records = backward_records();
  const std::string& setting = lazy::config().repeat_backward;
  if (setting == "off" || lazy::config().shadow || profiled_ || !describe(r, end, records.scratch)) {
    take_derivatives();
  } else {
    const BackwardKey key(r.trace(), records.scratch);
    const BackwardRecord* known = records.find(key);
    if (known && setting == "on") {
      repeat(r, *known);
    } else {
      const bool wanted = known || records.is_wanted(key);
      take_derivatives();
      std::optional<BackwardRecord> own;
      if (wanted) own = note(r, key, first);
      LAZULI_CHECK(!known || (own && *known == *own),
                   "backward recorded something else where everything before was the same");
      if (own && !known) records.keep(key, std::move(*own));
    }
  }
  for (uint32_t slot : open_) held_.emplace_back(slot, lazy::CellRef::share(&r.cell(slots_[slot])));
}

size_t Region::Run::end_of_scope(uint64_t until) const {
  const auto& items = region_.items_;
  const size_t most = std::min(region_.next_ + kStepsInAScope, items.size());
  size_t end = region_.next_ + 1;
  while (end < most && !items[end - 1].last && items[end].step->sequence > until) ++end;
  return end;
}

bool Region::Run::describe(const lazy::Recording& r, size_t end, std::vector<uint64_t>& out) const {
  out.clear();
  auto pair = [&](uint64_t a, uint64_t b) { out.push_back(a | b << 32); };
  auto list = [&](const ir::Dims& dims) {
    out.push_back(dims.size());
    for (int64_t d : dims) out.push_back(static_cast<uint64_t>(d));
  };
  pair(end - region_.next_, open_.size());
  for (uint32_t slot : open_) pair(slot, slots_[slot].node + slots_[slot].result);
  for (size_t i = region_.next_; i < end; ++i) {
    const Item& item = region_.items_[i];
    const Operation& op = item.step->operation();
    if (!op.is_unchanged()) return false;
    const size_t last = region_.end_of(i);
    pair(item.slot, item.step->outputs.size());
    out.push_back(needs_.empty() ? ~uint64_t{0} : needs_[i]);
    pair(last - item.target, op.view() != nullptr);
    for (size_t t = item.target; t < last; ++t) out.push_back(region_.targets_[t]);
    pair(item.gives_piece, region_.wholes_of(i).size());
    for (const Whole& w : region_.wholes_of(i)) {
      pair(w.slot, w.first);
      pair(static_cast<uint64_t>(w.pieces.dim), w.pieces.ranges.size());
      list(w.pieces.sizes);
      for (const auto [begin, end] : w.pieces.ranges) {
        out.push_back(static_cast<uint64_t>(begin));
        out.push_back(static_cast<uint64_t>(end));
      }
    }
    if (const ViewDerivative* view = op.view()) {
      out.push_back(static_cast<uint64_t>(view->form));
      list(view->sizes);
      list(view->numbers);
      continue;
    }
    const lazy::Segment& s = op.segment();
    if (s.fragment || s.epoch != r.trace().epoch()) return false;  // of an earlier trace
    auto value = [&](const lazy::Segment::Value& v) {
      out.push_back(v.id | uint64_t{v.order} << 32 | uint64_t{v.tensor} << 48);
      out.push_back(v.active);
      if (v.order) list(s.order(v));
    };
    pair(s.begin, s.end);
    pair(s.reads.size(), s.outputs.size());
    for (const auto& read : s.reads) value(read);
    for (const auto& output : s.outputs) value(output);
  }
  return true;
}

// Of the steps from `first` on, which have just been recorded.
std::optional<BackwardRecord> Region::Run::note(const lazy::Recording& r, const BackwardKey& key, size_t first) const {
  std::optional<lazy::Trace::Excerpt> excerpt = r.trace().since(key.begin);
  if (!excerpt) return {};
  BackwardRecord record{{key.structure.begin(), key.structure.end()}, std::move(*excerpt), {}, {}, {}};
  for (uint32_t slot : open_) record.open.emplace_back(slot, slots_[slot].node + slots_[slot].result);
  for (const auto& [edge, cell] : outgoing_) record.outgoing.emplace_back(edge, cell ? cell->id : lazy::kAbsent);
  for (size_t i = first; i < region_.next_; ++i) record.ran.push_back(region_.items_[i].ran);
  return record;
}

void Region::Run::repeat(lazy::Recording& r, const BackwardRecord& record) {
  r.repeat(record.excerpt);
  open_.clear();
  for (auto [slot, id] : record.open) {
    slots_[slot] = {id, 0};
    open_.push_back(slot);
  }
  for (auto [edge, id] : record.outgoing)
    outgoing_.emplace_back(edge, id == lazy::kAbsent ? lazy::CellRef() : lazy::CellRef::share(&r.cell({id, 0})));
  for (bool ran : record.ran) region_.items_[region_.next_++].ran = ran;
  lazy::metrics().derivatives_repeated += std::ranges::count(record.ran, true);
}

void begin_backward(std::span<c10::TensorImpl* const> roots, std::span<c10::TensorImpl* const> gradients,
                    std::span<c10::TensorImpl* const> others) {
  end_backward();
  if (!is_usual()) return;
  for (c10::TensorImpl* t : gradients)
    if (t && !(is_plain(*t) && is_ours(as_tensor(t)))) return;
  for (c10::TensorImpl* t : others) materialize(as_tensor(t));
  Roots& mine = roots_of_this_thread();
  std::vector<StepOf> steps;
  for (c10::TensorImpl* t : roots)
    // A view's may have to be made now, and what it comes from with it.
    if (!has_no_node(*t)) (void)as_tensor(t).grad_fn();
  std::lock_guard lock(graph_mutex());
  for (c10::TensorImpl* t : roots) {
    if (!has_no_node(*t)) continue;
    if (Roots::Root* known = mine.find(t)) {
      ++known->uses;
      continue;
    }
    mine.roots.push_back({t, static_cast<uint32_t>(steps.size()), 1});
    steps.push_back(StepOf(*t));
  }
  if (!steps.empty()) mine.region = Region::collect(steps);
}

void end_backward() {
  Roots& mine = roots_of_this_thread();
  mine.roots.clear();
  mine.region.reset();
}

const NodePointer<>* region_of_root(const c10::TensorImpl* t) {
  Roots& mine = roots_of_this_thread();
  return mine.find(t) ? &mine.region : nullptr;
}

int64_t take_root(const c10::TensorImpl* t) {
  Roots::Root* root = roots_of_this_thread().find(t);
  if (!root) return -1;
  --root->uses;
  return root->number;
}

}  // namespace lazuli::backend
