#include "lowering/index/terms.h"
#include <algorithm>
#include "ir/error.h"
#include "ir/hash.h"
#include "lowering/index/index_rules.h"
#include "lowering/index/memory_layout.h"

namespace lazuli::lowering {

using ir::Dims;
using ir::Value;

namespace {

constexpr uint8_t kMaxDepth = 8;  // stages of one kernel
constexpr int kMaxRefinements = 12;

ir::SizeSpan reduced_dims(const ir::Node& node) { return node.attrs.list(0); }

// Leaves that a kernel makes for itself even where they have memory.
bool is_number(ir::Op op) { return op == ir::Op::constant || op == ir::Op::scalar || op == ir::Op::iota; }

struct ReductionShape {
  Dims kept, reduced;                     // sizes
  ir::StridedWindow kept_in, reduced_in;  // where they lie in the operand
};

ReductionShape shape_of_reduction(const ir::Graph& graph, Value v) {
  const ir::Node& node = graph[v];
  const Dims& shape = graph.type(node.inputs[0]).shape;
  const Dims strides = ir::contiguous_strides(shape);
  std::vector<bool> folded(shape.size(), false);
  for (ir::Size d : reduced_dims(node)) folded[d] = true;
  ReductionShape r;
  for (size_t d = 0; d < shape.size(); ++d) {
    (folded[d] ? r.reduced : r.kept).push_back(shape[d]);
    (folded[d] ? r.reduced_in : r.kept_in).strides.push_back(strides[d]);
  }
  return r;
}

// Never empty, so that every kernel has a kept dimension and every reduction kernel a reduced one.
Dims without_ones(const Dims& shape) {
  Dims out;
  for (ir::Size n : shape)
    if (!n.is_surely_one()) out.push_back(n);
  if (out.empty()) out.push_back(1);
  return out;
}

uint64_t hash_form(const Form& f) {
  uint64_t h = f.offset.bits() * 0x9E3779B97F4A7C15ull ^ f.index ^ (f.index_coef.bits() << 32);
  for (ir::Size c : f.coefs) h = (h ^ c.bits()) * 0xff51afd7ed558ccdull + (h >> 29);
  return h;
}

}  // namespace

bool is_loop_reduction(const ir::Graph& graph, Value v) {
  return ir::is_reduction(graph[v].op) && graph.type(graph[v].inputs[0]).numel() > 0;
}

Terms::Terms(const ir::Graph& graph, const ValueTable& values, Value reduction)
    : graph_(graph), values_(values), reduction_(reduction) {
  make_space();
}

Terms::Terms(const ir::Graph& graph, const ValueTable& values, ir::SizeSpan shape)
    : graph_(graph), values_(values), shape_(shape) {
  make_space();
}

void Terms::make_space() {
  if (reduction_) {
    const ReductionShape r = shape_of_reduction(graph_, reduction_);
    space_.sizes = without_ones(r.kept);
    space_.kept = space_.sizes.size();
    space_.sizes.append(without_ones(r.reduced));
  } else {
    space_.sizes = without_ones(shape_);
    space_.kept = space_.sizes.size();
  }
  for (const Split& s : splits_) {
    space_.sizes[s.dim] /= s.inner;
    space_.sizes.insert(s.dim + 1, s.inner);
    if (s.dim < space_.kept) ++space_.kept;
  }
  terms_.clear();
  forms_.clear();
  form_ids_.clear();
  memo_.clear();
  keys_.clear();
  members_.clear();
  stores_.clear();
  loads_ = 0;
  kept_ = intern(kept_form(space_));
  reduced_ = intern(reduced_form(space_));
  element_ = kept_;
  wanted_.reset();
  if (reduction_)
    if (auto f = operand_form(reduction_)) element_ = intern(*f);
}

bool Terms::same_space(Value reduction) const {
  const ReductionShape r = shape_of_reduction(graph_, reduction);
  return ir::product(r.kept) == space_.kept_numel() && ir::product(r.reduced) == space_.reduced_numel();
}

bool Terms::add(std::span<const Root> roots, const Limits& limits) {
  obstacle_ = {};
  const size_t old_splits = splits_.size();
  for (int i = 0; i < kMaxRefinements; ++i) {
    if (try_add(roots, limits)) {
      roots_.insert(roots_.end(), roots.begin(), roots.end());
      return true;
    }
    if (!wanted_) break;
    splits_.push_back(*wanted_);
    make_space();
    if (!wanted_ && !roots_.empty() && !try_add(roots_, {}) && !wanted_) break;
  }
  if (splits_.size() != old_splits) {
    splits_.resize(old_splits, Split{});
    make_space();
    if (!roots_.empty()) LAZULI_CHECK(try_add(roots_, {}), "a fusion group no longer fits its own space");
  }
  return false;
}

bool Terms::try_add(std::span<const Root> roots, const Limits& limits) {
  const size_t terms = terms_.size(), keys = keys_.size(), stores = stores_.size(), loads = loads_;
  if (wanted_) return false;  // the space itself is not fine enough yet
  std::vector<uint32_t> entered;
  bool ok = true;
  for (const Root& r : roots) {
    if (r.target != r.value) continue;
    auto f = root_form(r);
    if (!f || !members_.emplace(values_[r.value], *f).second) {
      ok = false;
      break;
    }
    entered.push_back(values_[r.value]);
  }
  for (size_t i = 0; ok && i < roots.size(); ++i) ok = add_one(roots[i]);
  if (ok && loads_ - loads <= limits.loads && !(limits.one_walk && walks_again())) return true;
  for (uint32_t m : entered) members_.erase(m);
  truncate(terms, keys, stores);
  loads_ = loads;
  return false;
}

bool Terms::walks_again() const {
  return std::any_of(terms_.begin(), terms_.end(), [](const Term& t) { return !t.row && t.depth > 0; });
}

void Terms::truncate(size_t terms, size_t keys, size_t stores) {
  for (size_t i = keys; i < keys_.size(); ++i) memo_.erase(keys_[i]);
  keys_.resize(keys);
  terms_.resize(terms);
  stores_.resize(stores);
}

bool Terms::add_one(const Root& root) {
  auto at = root_form(root);
  if (!at) return false;
  std::optional<FormId> to = *at, from = *at;
  if (root.window) to = move(root.value, *at, root.shape(graph_), *root.window);
  if (to) to = in_memory(root.target, *to);
  if (graph_.type(root.value).numel() != ir::product(root.shape(graph_))) from = intern({ir::Dims(space_.rank(), 0)});
  const uint32_t term = eval(root.value, *from);
  if (term == kNoTerm || !to) return false;
  stores_.push_back({root, term, *to});
  return true;
}

std::optional<FormId> Terms::root_form(const Root& root) {
  const Value v = root.value;
  const ir::Size numel = ir::product(root.shape(graph_)), kept = space_.kept_numel(),
                 all = kept * space_.reduced_numel();
  if (is_loop_reduction(graph_, v) && root.target == v) {
    if (!reduction_ || numel != kept || graph_.type(graph_[v].inputs[0]).numel() != all) return {};
    return kept_;
  }
  if (numel == all) return element_;
  if (numel == kept) return kept_;
  return {};
}

uint32_t Terms::eval(Value v, FormId at) {
  const uint32_t id = values_[v];
  const uint64_t key = uint64_t(id) << 32 | at;
  if (auto it = memo_.find(key); it != memo_.end()) return it->second;
  uint32_t term;
  if (!values_.stored(v) || is_number(graph_[v].op) || is_reshape_of_stored(v)) {
    term = define(v, at);
  } else if (auto member = members_.find(id); member == members_.end()) {
    term = load(v, at);
  } else if (member->second == at) {
    term = define(v, at);
  } else {
    return kNoTerm;  // made here, but wanted in another place too
  }
  if (term == kNoTerm) return kNoTerm;
  memo_.emplace(key, term);
  keys_.push_back(key);
  return term;
}

// Its operand's memory in the same order and type: read as the operand, which this group may be making.
bool Terms::is_reshape_of_stored(Value v) const {
  return values_.shares(v) && graph_.type(v).dtype == graph_.type(graph_[v].inputs[0]).dtype;
}

uint32_t Terms::define(Value v, FormId at) {
  switch (ir::info(graph_[v].op).kind) {
    case ir::Kind::View:
      return view(v, at);
    case ir::Kind::Elementwise:
      return elementwise(v, at);
    case ir::Kind::Reduction:
      return reduce(v, at);
    case ir::Kind::Index:
      return indexed(v, at);
    case ir::Kind::Leaf: {
      if (graph_[v].op != ir::Op::iota) return push({Term::Number, false, 0, graph_.type(v).dtype, v, at, {}});
      Term t{Term::Index, false, 0, graph_.type(v).dtype, v, at, {}};
      if (const uint32_t index = forms_[at].index; index != kNoTerm) {
        t.children = {index};
        t.depth = terms_[index].depth;
      }
      return push(std::move(t));
    }
    default:
      throw InternalError("a value of " + std::string(ir::name(graph_[v].op)) + " has no memory");
  }
}

uint32_t Terms::view(Value v, FormId at) {
  const ir::Node& node = graph_[v];
  const ir::Type& operand = graph_.type(node.inputs[0]);
  auto inside = move(v, at, graph_.type(v).shape, ir::info(node.op).window(operand, node.attrs, graph_.type(v)));
  return inside ? eval(node.inputs[0], *inside) : kNoTerm;
}

uint32_t Terms::elementwise(Value v, FormId at) {
  const ir::Node& node = graph_[v];
  const Dims& shape = graph_.type(v).shape;
  Term t{Term::Apply, false, 0, graph_.type(v).dtype, v, at, {}};
  t.children.reserve(node.inputs.size());
  for (Value x : node.inputs) {
    const Dims& from = graph_.type(x).shape;
    auto inside = from == shape ? at : move(v, at, shape, broadcast_window(from, shape));
    const uint32_t child = inside ? eval(x, *inside) : kNoTerm;
    if (child == kNoTerm) return kNoTerm;
    t.children.push_back(child);
    t.depth = std::max(t.depth, terms_[child].depth);
  }
  return push(std::move(t));
}

uint32_t Terms::reduce(Value v, FormId at) {
  if (!is_loop_reduction(graph_, v)) return push({Term::Nothing, false, 0, graph_.type(v).dtype, v, at, {}});
  if (at != kept_) return kNoTerm;
  auto inside = operand_form(v);
  if (!inside) return kNoTerm;
  const uint32_t child = eval(graph_[v].inputs[0], intern(*inside));
  if (child == kNoTerm || terms_[child].depth + 1 >= kMaxDepth) return kNoTerm;
  return push(
      {Term::Reduce, true, static_cast<uint8_t>(terms_[child].depth + 1), graph_.type(v).dtype, v, at, {child}});
}

uint32_t Terms::indexed(Value v, FormId at) {
  const ir::Node& node = graph_[v];
  const IndexRule* rule = index_rule(node.op);
  if (!rule || !rule->read) throw InternalError("a value of " + std::string(ir::name(node.op)) + " has no memory");
  const Dims& shape = graph_.type(v).shape;
  const IndexedRead read = rule->read(graph_, v);
  auto index_at = move(v, at, shape, read.index);
  auto operand_at = move(v, at, shape, read.operand);
  if (!index_at || !operand_at) return kNoTerm;
  const uint32_t index = eval(node.inputs[1], *index_at);
  if (index == kNoTerm) return kNoTerm;
  Form f = forms_[*operand_at];
  if (f.index != kNoTerm) {  // one run-time index per address
    obstacle_ = v;
    return kNoTerm;
  }
  f.index = index;
  f.index_coef = read.index_stride;
  f.index_size = read.index_size;
  f.index_by = v;
  const uint32_t read_there = eval(node.inputs[0], intern(std::move(f)));
  // Of a constant or a broadcast the index does not matter; it is checked where memory is read.
  if (read_there != kNoTerm && !is_number(graph_[node.inputs[0]].op) && !depends_on(read_there, index)) {
    obstacle_ = node.inputs[0];
    return kNoTerm;
  }
  return read_there;
}

bool Terms::depends_on(uint32_t term, uint32_t index) const {
  std::vector<bool> wanted(term + 1);
  wanted[term] = true;
  for (uint32_t i = term + 1; i-- > 0;) {  // children come before their readers
    if (!wanted[i]) continue;
    const Term& t = terms_[i];
    if ((t.kind == Term::Load || t.kind == Term::Index) && forms_[t.form].index == index) return true;
    for (uint32_t c : t.children) wanted[c] = true;
  }
  return false;
}

uint32_t Terms::load(Value v, FormId at) {
  if (members_.count(values_[values_.home(v)])) return kNoTerm;  // made here, but wanted as bytes of another type
  const auto place = in_memory(v, at);
  if (!place) return kNoTerm;
  at = *place;
  ++loads_;
  const uint32_t index = forms_[at].index;
  Term t{Term::Load, false, 0, graph_.type(v).dtype, v, at, {}};
  if (index != kNoTerm) {
    t.children = {index};
    t.depth = terms_[index].depth;
  }
  return push(std::move(t));
}

// From a row-major number to the place in memory.
std::optional<FormId> Terms::in_memory(Value v, FormId at) {
  if (!values_.channels_last(values_.home(v))) return at;
  return move(values_.home(v), at, graph_.type(v).shape, {memory_strides(graph_, values_, v), 0});
}

uint32_t Terms::push(Term term) {
  // A value that moves with no reduced dimension is computed once per kept point.
  if (term.kind != Term::Reduce && space_.reduced() > 0) {
    term.row = true;
    for (uint32_t c : term.children) term.row &= terms_[c].row;
    if (term.kind == Term::Load || term.kind == Term::Index)
      for (uint32_t d = space_.kept; d < space_.rank(); ++d) term.row &= forms_[term.form].coefs[d] == 0;
  }
  terms_.push_back(std::move(term));
  return static_cast<uint32_t>(terms_.size() - 1);
}

std::optional<FormId> Terms::move(Value v, FormId at, ir::SizeSpan shape, const ir::StridedWindow& window) {
  Form out;
  Split split;
  const Fit found = through_window(forms_[at], space_, shape, window, out, split);
  if (found == Fit::Yes) return intern(std::move(out));
  if (found == Fit::NeedsSplit) wanted_ = split;
  obstacle_ = v;  // of a split too: there may be no end of them
  return {};
}

std::optional<Form> Terms::operand_form(Value reduction) {
  const ReductionShape r = shape_of_reduction(graph_, reduction);
  Form kept, reduced;
  Split split;
  auto place = [&](FormId from, const Dims& shape, const ir::StridedWindow& window, Form& out) {
    const Fit found = through_window(forms_[from], space_, shape, window, out, split);
    if (found == Fit::Yes) return true;
    if (found == Fit::NeedsSplit) wanted_ = split;
    obstacle_ = graph_[reduction].inputs[0];
    return false;
  };
  if (!place(kept_, r.kept, r.kept_in, kept) || !place(reduced_, r.reduced, r.reduced_in, reduced)) return {};
  for (uint32_t d = 0; d < space_.rank(); ++d) kept.coefs[d] += reduced.coefs[d];
  kept.offset += reduced.offset;
  return kept;
}

FormId Terms::intern(Form form) {
  const uint64_t h = ir::for_lookup(hash_form(form));
  auto [begin, end] = form_ids_.equal_range(h);
  for (auto it = begin; it != end; ++it)
    if (forms_[it->second] == form) return it->second;
  forms_.push_back(std::move(form));
  const FormId id = static_cast<FormId>(forms_.size() - 1);
  form_ids_.emplace(h, id);
  return id;
}

}  // namespace lazuli::lowering
