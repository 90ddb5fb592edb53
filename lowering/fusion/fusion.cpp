#include "lowering/fusion/fusion.h"
#include <algorithm>
#include "ir/error.h"
#include "lowering/fusion/epilogue.h"
#include "lowering/fusion/layout_choice.h"
#include "lowering/fusion/run_order.h"
#include "lowering/fusion/storage_choice.h"
#include "lowering/index/index_rules.h"
#include "lowering/nest/schedules/launch.h"

namespace lazuli::lowering {

using ir::Value;

namespace {

// Bounds of one kernel: operands in registers, code size, compile time.
constexpr size_t kMaxLoads = 40, kMaxTerms = 500, kMaxStores = 24;
constexpr size_t kNeighbours = 8;           // readers of one value that are tried for sideways fusion
constexpr size_t kFewPieces = 4;            // of a concatenation
constexpr int64_t kOneWalkNumel = 1 << 16;  // from here on a kernel with too few kept points walks its data once

class Fuser {
 public:
  Fuser(const ir::Graph& graph, const FusionOptions& options)
      : graph_(graph),
        options_(options),
        out_{ValueTable(graph), {}, {}, make_epilogues(graph, options)},
        storage_(graph, out_.values, *out_.epilogues, *options.libraries, options.enabled) {
    if (options.enabled) choose_layouts(graph, out_.values, *out_.epilogues, *options.libraries);
  }

  Fusion run() {
    do {
      again_ = false;
      units_.clear();
      makers_.assign(values().count(), {});
      readers_.assign(values().count(), {});
      share_with_outputs(graph_, values());
      for (uint32_t n = 0; n < graph_.nodes.size(); ++n) make_units(n);
    } while (again_);
    if (options_.enabled)
      for (uint32_t u = 0; u < units_.size(); ++u)
        if (units_[u].terms) merge_neighbours(u);
    emit();
    return std::move(out_);
  }

 private:
  // A kernel or a call, before and while kernels merge. Merged units point to the one that took them.
  struct Unit {
    std::unique_ptr<Terms> terms;
    std::vector<Root> roots;
    std::vector<uint32_t> reads;  // numbers of home values
    std::vector<uint32_t> writes;
    std::vector<uint32_t> after;  // units that write the same memory before
    uint32_t node = UINT32_MAX;   // calls
    uint32_t owner;
    uint32_t first;         // smallest unit merged in
    uint32_t place;         // in the program: the largest one merged in, pieces aside where there are others
    bool is_piece = false;  // of a concatenation, which is written where it is computed
    uint32_t latest;        // no unit merged into this one or into what it waits for is larger
    uint32_t seen = 0;
  };

  static std::shared_ptr<const Epilogues> make_epilogues(const ir::Graph& graph, const FusionOptions& options) {
    return options.enabled ? std::make_shared<Epilogues>(graph, *options.libraries) : std::make_shared<Epilogues>();
  }

  ValueTable& values() { return out_.values; }
  uint32_t home(Value v) { return values()[values().home(v)]; }
  uint32_t find(uint32_t u) {
    while (units_[u].owner != u) u = units_[u].owner = units_[units_[u].owner].owner;
    return u;
  }

  void make_units(uint32_t n) {
    const ir::Node& node = graph_.nodes[n];
    const Value v{n, 0};
    if (out_.epilogues->absorbed(n)) return;
    if (is_call(node.op)) {
      const Epilogue* e = out_.epilogues->of(n);
      if (values().stored(e ? e->result : v)) make_call(n);  // else nobody reads it
      return;
    }
    if (node.types.empty() || !values().stored(v) || node.op == ir::Op::input || node.op == ir::Op::uninitialized)
      return;
    if (values().shares(v)) return;
    const IndexRule* rule = index_rule(node.op);
    if (!rule || !rule->place) return make_kernel({v, v, {}}, {});
    std::vector<uint32_t> before;
    for (const Root& root : rule->place(graph_, v)) {
      const size_t made = units_.size();
      make_kernel(root, before);
      for (size_t u = made; u < units_.size(); ++u) units_[u].is_piece = true;
      if (rule->overlapping && !units_.empty()) before.push_back(static_cast<uint32_t>(units_.size() - 1));
    }
  }

  uint32_t add_unit(Unit unit) {
    const auto id = static_cast<uint32_t>(units_.size());
    unit.owner = unit.first = unit.place = unit.latest = id;
    for (uint32_t w : unit.writes) makers_[w].push_back(id);
    for (uint32_t r : unit.reads) readers_[r].push_back(id);
    units_.push_back(std::move(unit));
    return id;
  }

  void make_call(uint32_t n) {
    Unit unit;
    unit.node = n;
    for (Value x : graph_.nodes[n].inputs) {
      if (!x) continue;
      Value obstacle;
      auto operand = strided_operand(graph_, values(), x, obstacle);
      if (!operand && needs_row_major(obstacle)) return;
      LAZULI_CHECK(operand && values().stored(operand->base), "a call's operand has no memory");
      unit.reads.push_back(home(operand->base));
    }
    if (const Epilogue* e = out_.epilogues->of(n)) {
      for (const StridedOperand& x : e->operands) unit.reads.push_back(home(x.base));
      unit.writes = {values()[e->result]};
    } else {
      for (uint32_t r = 0; r < graph_.nodes[n].types.size(); ++r)
        if (values().stored({n, r})) unit.writes.push_back(values()[{n, r}]);
    }
    drop_twins(unit.reads);
    add_unit(std::move(unit));
  }

  std::unique_ptr<Terms> fresh_terms(const Root& root) {
    if (root.target == root.value && is_loop_reduction(graph_, root.value))
      return std::make_unique<Terms>(graph_, values(), root.value);
    return std::make_unique<Terms>(graph_, values(), root.shape(graph_));
  }

  // What is in the way may be no more than how a value lies in memory.
  bool needs_row_major(Value obstacle) {
    if (!values().stored(obstacle) || !values().channels_last(obstacle)) return false;
    values().set_channels_last(obstacle, false);
    return again_ = true;
  }

  // One kernel for one root. Where a view inside is not linear in the root's shape, that gets memory, and all kernels
  // are made again: each must know of every value whether it has memory.
  void make_kernel(const Root& root, const std::vector<uint32_t>& before) {
    if (ir::product(root.shape(graph_)) == 0) return;
    auto terms = fresh_terms(root);
    if (!terms->add({&root, 1})) {
      const Value obstacle = terms->obstacle();
      if (obstacle && needs_row_major(obstacle)) return;
      LAZULI_CHECK(obstacle && !values().stored(obstacle),
                   "no loop nest computes " + std::string(ir::name(graph_[root.value].op)));
      storage_.require(obstacle);
      again_ = true;
      return;
    }
    Unit unit;
    unit.terms = std::move(terms);
    unit.roots = {root};
    unit.after = before;
    unit.writes = {home(root.target)};
    read_by(*unit.terms, unit.reads);
    add_unit(std::move(unit));
  }

  void read_by(const Terms& terms, std::vector<uint32_t>& reads) {
    for (uint32_t t = 0; t < terms.size(); ++t)
      if (terms[t].kind == Term::Load) reads.push_back(home(terms[t].value));
    drop_twins(reads);
  }

  void merge_neighbours(uint32_t u) {
    std::vector<uint32_t> tries;
    for (uint32_t r : units_[find(u)].reads)
      for (uint32_t m : makers_[r]) tries.push_back(m);
    std::sort(tries.rbegin(), tries.rend());
    const int64_t wide = points(*units_[find(u)].terms).hint();
    for (uint32_t r : std::vector<uint32_t>(units_[find(u)].reads)) {
      if (graph_.type(value_of(r)).numel().hint() < wide / 2) continue;
      const auto& readers = readers_[r];
      const auto end = std::lower_bound(readers.begin(), readers.end(), u);
      const auto begin = end - std::min<ptrdiff_t>(end - readers.begin(), kNeighbours);
      for (auto it = end; it != begin;) tries.push_back(*--it);
    }
    for (uint32_t w : units_[u].writes)  // pieces of one concatenation
      if (makers_[w].size() <= kFewPieces || !is_copy(*units_[find(u)].terms))
        for (uint32_t m : makers_[w])
          if (m < u) tries.push_back(m);
    for (uint32_t t : tries) {
      const uint32_t a = find(t), b = find(u);
      if (a != b && units_[a].terms) try_merge(a, b);
    }
  }

  // Many copies are better not one kernel, which would be another for each number of them; they run as one launch all
  // the same.
  static bool is_copy(const Terms& t) { return t.stores().size() == 1 && t[t.stores()[0].term].kind == Term::Load; }

  static ir::Size points(const Terms& t) { return t.space().kept_numel() * t.space().reduced_numel(); }

  Value value_of(uint32_t number) {
    return numbered_.empty() ? (number_values(), numbered_[number]) : numbered_[number];
  }
  void number_values() {
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n)
      for (uint32_t r = 0; r < graph_.nodes[n].types.size(); ++r) numbered_.push_back({n, r});
  }

  void try_merge(uint32_t a, uint32_t b) {
    if (a > b) std::swap(a, b);
    Unit &x = units_[a], &y = units_[b];
    if (x.terms->loads() + y.terms->loads() > kMaxLoads || x.terms->size() + y.terms->size() > kMaxTerms ||
        x.roots.size() + y.roots.size() > kMaxStores)
      return;
    const bool y_reads_x = reads_from(y, x), x_reads_y = reads_from(x, y), beside = !x_reads_y && !y_reads_x;
    if (!spaces_may_fit(*x.terms, *y.terms, beside) || ordered(a, b) || cycle(a, b)) return;
    // The side with the reduction decides the space; terms that load what the other side makes are made anew.
    const bool grow_x = x.terms->has_reduction() || !y.terms->has_reduction();
    Unit &base = grow_x ? x : y, &other = grow_x ? y : x;
    Terms::Limits limits;
    limits.one_walk = is_narrow(*base.terms);
    if (!(grow_x ? x_reads_y : y_reads_x)) {
      // Side by side they only gain from operands that both read at the same place.
      const size_t loads = other.terms->loads();
      if (beside) limits.loads = loads - std::min<size_t>(loads, 1);
      if (base.terms->add(other.roots, limits)) absorb(a, b, std::move(base.terms));
      return;
    }
    auto terms = fresh_terms(reduction_root(base));
    std::vector<Root> roots = x.roots;
    roots.insert(roots.end(), y.roots.begin(), y.roots.end());
    if (terms->add(roots, limits)) absorb(a, b, std::move(terms));
  }

  const Root& reduction_root(const Unit& u) {
    for (const Root& r : u.roots)
      if (r.target == r.value && is_loop_reduction(graph_, r.value)) return r;
    return u.roots[0];
  }

  // For kernels side by side, sizes that are equal by chance are no reason: each would want a plan of its own.
  static bool spaces_may_fit(const Terms& x, const Terms& y, bool beside) {
    const auto equal = [&](ir::Size a, ir::Size b) { return beside ? always_equal(a, b) : a == b; };
    if (x.has_reduction() && y.has_reduction())
      return equal(x.space().kept_numel(), y.space().kept_numel()) &&
             equal(x.space().reduced_numel(), y.space().reduced_numel());
    if (x.has_reduction() == y.has_reduction()) return equal(points(x), points(y));
    const Terms &around = x.has_reduction() ? x : y, &inside = x.has_reduction() ? y : x;
    return equal(points(inside), points(around)) || equal(points(inside), around.space().kept_numel());
  }

  // Kernels that may only run one behind the other: both write a place, or one reads what the other makes in pieces.
  bool ordered(uint32_t a, uint32_t b) {
    if (reads_pieces(units_[a], units_[b]) || reads_pieces(units_[b], units_[a])) return true;
    for (uint32_t u : units_[b].after)
      if (find(u) == a) return true;
    for (uint32_t u : units_[a].after)
      if (find(u) == b) return true;
    return false;
  }

  bool reads_pieces(const Unit& reader, const Unit& maker) {
    for (const Root& r : maker.roots)
      if (r.target != r.value && std::binary_search(reader.reads.begin(), reader.reads.end(), home(r.target)))
        return true;
    return false;
  }

  // Kept points that one thread walks together: those of a cache line or a few, where memory is contiguous along them
  // and not along what is reduced.
  static ir::Size kept_side_by_side(const Terms& t) {
    const Space& space = t.space();
    ir::Size columns = 0, rows = 0, width = 1;
    for (uint32_t i = 0; i < t.size(); ++i) {
      if (t[i].kind != Term::Load || t[i].row) continue;
      const Form& form = t.form(t[i].form);
      for (uint32_t d = 0; d < space.rank(); ++d) {
        if (space.sizes[d].is_surely_one() || abs(form.coefs[d]) != 1) continue;
        ++(d < space.kept ? columns : rows);
        if (d < space.kept) width = max(width, space.sizes[d]);
      }
    }
    return columns > rows ? min(width, kColumns) : ir::Size(1);
  }

  // Walking the data again after a reduction is for one thread, and leaves others idle.
  bool is_narrow(const Terms& around) const {
    if (!around.has_reduction() || points(around) < kOneWalkNumel) return false;
    return around.space().kept_numel() / kept_side_by_side(around) < 2 * options_.threads;
  }

  bool reads_from(const Unit& reader, const Unit& maker) {
    for (uint32_t w : maker.writes)
      if (std::binary_search(reader.reads.begin(), reader.reads.end(), w)) return true;
    return false;
  }

  // Does data flow between the two through a third? Then merging them would wait for itself.
  bool cycle(uint32_t a, uint32_t b) { return flows_around(a, b) || flows_around(b, a); }

  bool flows_around(uint32_t from, uint32_t to) {
    ++epoch_;
    std::vector<uint32_t> stack;
    auto visit = [&](uint32_t u) {
      u = find(u);
      if (units_[u].seen == epoch_ || units_[u].latest < units_[from].first) return;
      units_[u].seen = epoch_;
      stack.push_back(u);
    };
    units_[to].seen = epoch_;
    for_sources(to, [&](uint32_t u) {
      if (find(u) != from) visit(u);
    });
    while (!stack.empty()) {
      const uint32_t u = stack.back();
      stack.pop_back();
      if (u == from) return true;
      for_sources(u, visit);
    }
    return false;
  }

  template <class F>
  void for_sources(uint32_t u, F&& f) {
    for (uint32_t r : units_[u].reads)
      for (uint32_t m : makers_[r]) f(m);
    for (uint32_t m : units_[u].after) f(m);
  }

  void absorb(uint32_t a, uint32_t b, std::unique_ptr<Terms> terms) {
    Unit &x = units_[a], &y = units_[b];
    x.terms = std::move(terms);
    y.terms.reset();
    x.roots.insert(x.roots.end(), y.roots.begin(), y.roots.end());
    x.writes.insert(x.writes.end(), y.writes.begin(), y.writes.end());
    x.after.insert(x.after.end(), y.after.begin(), y.after.end());
    x.reads.insert(x.reads.end(), y.reads.begin(), y.reads.end());
    drop_twins(x.reads);
    // What the group makes itself it no longer reads; concatenations are the exception, made in pieces.
    std::erase_if(x.reads, [&](uint32_t r) {
      return std::all_of(makers_[r].begin(), makers_[r].end(),
                         [&](uint32_t m) { return find(m) == a || find(m) == b; }) &&
             !makers_[r].empty();
    });
    x.place = x.is_piece == y.is_piece ? std::max(x.place, y.place) : x.is_piece ? y.place : x.place;
    x.is_piece &= y.is_piece;
    y.owner = a;
    raise_latest(a, std::max(x.latest, y.latest));
  }

  // Whoever waits for a unit, waits for all that it has merged with.
  void raise_latest(uint32_t u, uint32_t latest) {
    units_[u].latest = latest;
    std::vector<uint32_t> stack{u};
    auto raise = [&](uint32_t follower) {
      follower = find(follower);
      if (units_[follower].latest >= latest) return;
      units_[follower].latest = latest;
      stack.push_back(follower);
    };
    while (!stack.empty()) {
      const Unit& unit = units_[stack.back()];
      stack.pop_back();
      for (uint32_t w : unit.writes) {
        for (uint32_t r : readers_[w]) raise(r);
        // Pieces of one place are written one behind the other.
        for (uint32_t m : makers_[w]) raise(m);
      }
    }
  }

  void emit() {
    drop_unwanted();
    order();
  }

  // Which stores are read outside their group.
  void drop_unwanted() {
    wanted_.assign(values().count(), false);
    for (Value v : graph_.outputs) wanted_[home(v)] = true;
    for (uint32_t u = 0; u < units_.size(); ++u)
      if (find(u) == u)
        for (uint32_t r : units_[u].reads) wanted_[r] = true;
  }

  void order() {
    std::vector<uint32_t> unit_of, task_of(units_.size());
    for (uint32_t u = 0; u < units_.size(); ++u) {
      if (find(u) != u) continue;
      task_of[u] = static_cast<uint32_t>(unit_of.size());
      unit_of.push_back(u);
    }
    std::vector<Task> tasks;
    std::vector<ir::Size> bytes(values().count());
    for (uint32_t u : unit_of) {
      Task task{units_[u].place, {}, units_[u].reads, {}};
      for_sources(u, [&](uint32_t s) {
        if (find(s) != u) task.sources.push_back(task_of[find(s)]);
      });
      drop_twins(task.sources);
      for (uint32_t w : units_[u].writes)
        if (wanted_[w] || !units_[u].terms) task.writes.push_back(w), bytes[w] = graph_.type(value_of(w)).bytes();
      drop_twins(task.writes);
      tasks.push_back(std::move(task));
    }
    std::vector<bool> kept(values().count());
    for (Value v : graph_.outputs) kept[home(v)] = true;
    for (uint32_t t : run_order(tasks, bytes, kept)) emit_unit(units_[unit_of[t]]);
  }

  static void drop_twins(std::vector<uint32_t>& list) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }

  void emit_unit(Unit& u) {
    if (!u.terms) {
      out_.steps.push_back({-1, u.node});
      return;
    }
    FusionGroup group;
    bool any = false;
    for (const auto& s : u.terms->stores()) {
      group.needed.push_back(wanted_[home(s.root.target)]);
      any |= group.needed.back();
    }
    if (!any) return;
    group.terms = std::move(u.terms);
    out_.steps.push_back({static_cast<int32_t>(out_.groups.size())});
    out_.groups.push_back(std::move(group));
  }

  const ir::Graph& graph_;
  const FusionOptions& options_;
  Fusion out_;
  StorageChoice storage_;
  std::vector<Unit> units_;
  std::vector<std::vector<uint32_t>> makers_, readers_;  // units, by value number
  std::vector<bool> wanted_;
  std::vector<Value> numbered_;
  uint32_t epoch_ = 0;
  bool again_ = false;
};

}  // namespace

Fusion fuse(const ir::Graph& graph, const FusionOptions& options) { return Fuser(graph, options).run(); }

}  // namespace lazuli::lowering
