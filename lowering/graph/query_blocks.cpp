#include "lowering/graph/query_blocks.h"
#include <algorithm>
#include <map>
#include <set>
#include "ir/passes/rewrite.h"
#include "lowering/fusion/library_calls.h"
#include "lowering/graph/query_axis.h"

namespace lazuli::lowering {
namespace {

using ir::Attrs;
using ir::Dims;
using ir::Graph;
using ir::Node;
using ir::Op;
using ir::Size;
using ir::Value;

constexpr int64_t kWorthIt = 16;     // times the bytes of a block: fewer scores are not worth what cutting costs
constexpr int64_t kMostBlocks = 32;  // each adds nodes to the graph
constexpr int64_t kLeastRows = 256;  // of a block: each reads all keys, whose operands may have to be copied first
constexpr int64_t kMuchSmaller = 8;  // than scores, of what is kept rather than computed anew
constexpr int64_t kShallow = 4;      // times as many queries and keys as dimensions of each
constexpr uint32_t kNone = UINT32_MAX;

bool is_product_of_queries(const Node& n) {
  return n.op == Op::matmul && n.types[0].rank() == 3 && !n.types[0].numel().is_symbolic();
}

// Scores, and all that is computed of them and keeps their queries apart, forward and backward. They come in levels:
// what needs results of one level (backward, gradients of what became of the probabilities) is of the next.
struct Attention {
  int64_t queries = 0, keys = 0;
  int64_t scores = 0;  // elements for all queries
  int64_t bytes = 0;   // of all scores
  uint32_t levels = 1;
  bool is_cut = true;
};

// What the nodes of a graph are to the attentions in it.
class Regions {
 public:
  Regions(const Graph& graph, const Libraries& libraries)
      : graph_(graph), libraries_(libraries), places_(graph.nodes.size()) {
    for (uint32_t id = 0; id < graph.nodes.size(); ++id) place(id);
    for (Place& p : places_)
      if (p.attention != kNone) p.attention = root(p.attention);
    leave_out_followers();
    find_exits();
    find_levels();
  }

  struct Place {
    uint32_t attention = kNone;
    BlockRule rule;
    bool open = false;     // what is computed of it may belong here, too
    bool is_exit = false;  // others read it
    uint32_t level = 0;
  };
  const Place& operator[](uint32_t id) const { return places_[id]; }
  const std::vector<Attention>& attentions() const { return attentions_; }
  bool is_inside(uint32_t id) const { return places_[id].attention != kNone; }
  // Whether it is computed again where a later level needs it.
  bool is_large(Value v, uint32_t attention) const {
    return kMuchSmaller * graph_.type(v).numel() > attentions_[attention].scores;
  }
  bool any() const {
    return std::ranges::any_of(places_, [](const Place& p) { return p.attention != kNone; });
  }

 private:
  uint32_t root(uint32_t a) const {
    while (parents_[a] != a) a = parents_[a];
    return a;
  }
  void join(uint32_t a, uint32_t b) {
    a = root(a), b = root(b);
    if (a == b) return;
    Attention &into = attentions_[a], &from = attentions_[b];
    if (into.queries != from.queries) into.is_cut = false;
    into.is_cut &= from.is_cut;
    into.scores = std::max(into.scores, from.scores), into.bytes = std::max(into.bytes, from.bytes);
    into.keys = std::max(into.keys, from.keys);
    parents_[b] = a;
  }

  void place(uint32_t id) {
    const Node& n = graph_.nodes[id];
    uint32_t attention = kNone;
    for (Value v : n.inputs) {
      if (!v || !places_[v.node].open) continue;
      if (attention != kNone) join(attention, places_[v.node].attention);
      attention = root(places_[v.node].attention);
    }
    if (attention == kNone) {
      if (makes_many_scores(n, libraries_) && is_shallow(n)) begin(id);
      return;
    }
    const auto rule =
        rule_of(graph_, n, [&](Value v) { return places_[v.node].open ? places_[v.node].rule.axis : kNoAxis; });
    if (!rule) return;
    Attention& a = attentions_[attention];
    Place& p = places_[id];
    p.attention = attention, p.rule = *rule;
    p.open = p.rule.axis != kNoAxis && (n.op != Op::matmul || 2 * n.types[0].numel() >= a.scores);
    if (p.open && n.types[0].shape[p.rule.axis] != a.queries) a.is_cut = false;
  }

  // Products over few dimensions are worth repeating in backward.
  bool is_shallow(const Node& n) const {
    const Dims& scores = n.types[0].shape;
    return kShallow * graph_.type(n.inputs[0]).shape[2] <= std::min(scores[1], scores[2]);
  }

  void begin(uint32_t id) {
    const ir::Type& type = graph_.nodes[id].types[0];
    parents_.push_back(static_cast<uint32_t>(attentions_.size()));
    attentions_.push_back(
        {.queries = type.shape[1], .keys = type.shape[2], .scores = type.numel(), .bytes = type.bytes()});
    places_[id] = {parents_.back(), {1, {1, kNoAxis}}, true, false, 0};
  }

  // What only goes on computing with small results is computed for all queries at once.
  void leave_out_followers() {
    std::vector<bool> needed(places_.size());
    for (uint32_t id = static_cast<uint32_t>(places_.size()); id-- > 0;) {
      Place& p = places_[id];
      if (p.attention == kNone) continue;
      const Attention& a = attentions_[p.attention];
      const auto has_queries_by_keys = [&](Value v) { return graph_.type(v).numel() >= a.queries * a.keys; };
      const Node& n = graph_.nodes[id];
      const bool folds = n.op == Op::matmul || !p.open || ir::is_reduction(n.op);
      if (!needed[id] && !(p.open && has_queries_by_keys({id, 0})) &&
          !(folds && std::ranges::any_of(n.inputs, [&](Value v) { return v && is_open(v) && has_queries_by_keys(v); })))
        p = {};
      else
        for (Value v : n.inputs)
          if (v && is_open(v)) needed[v.node] = true;
    }
  }
  bool is_open(Value v) const { return places_[v.node].open; }

  // An attention whose scores somebody else reads has to have them in memory in any case.
  void find_exits() {
    const auto read_from_outside = [&](Value v) {
      Place& p = places_[v.node];
      if (p.attention == kNone) return;
      p.is_exit = true;
      Attention& a = attentions_[p.attention];
      if (p.open && 2 * graph_.type(v).numel() >= a.scores) a.is_cut = false;
    };
    for (uint32_t id = 0; id < places_.size(); ++id)
      for (Value v : graph_.nodes[id].inputs)
        if (v && (places_[id].attention == kNone || !is_open(v) || places_[v.node].attention != places_[id].attention))
          read_from_outside(v);
    for (Value v : graph_.outputs) read_from_outside(v);
    for (Place& p : places_)
      if (p.attention != kNone && !attentions_[p.attention].is_cut) p = {};
  }

  void find_levels() {
    const size_t count = attentions_.size();
    std::vector<uint32_t> levels(places_.size() * count);  // by node and attention: the next one of it
    for (uint32_t id = 0; id < places_.size(); ++id) {
      uint32_t* mine = levels.data() + id * count;
      Place& p = places_[id];
      for (Value v : graph_.nodes[id].inputs) {
        if (!v) continue;
        const Place& from = places_[v.node];
        for (uint32_t a = 0; a < count; ++a) mine[a] = std::max(mine[a], levels[v.node * count + a]);
        if (from.attention == kNone) continue;
        const bool goes_on = from.attention == p.attention && from.open;
        uint32_t& level = mine[from.attention];
        level = std::max(level, from.level + !goes_on);
      }
      if (p.attention == kNone) continue;
      p.level = mine[p.attention];
      attentions_[p.attention].levels = std::max(attentions_[p.attention].levels, p.level + 1);
    }
  }

  const Graph& graph_;
  const Libraries& libraries_;
  std::vector<Place> places_;
  std::vector<Attention> attentions_;
  std::vector<uint32_t> parents_;
};

// A level of an attention, as a loop over blocks of queries.
struct Level {
  uint32_t attention, level;
  std::vector<uint32_t> nodes;  // of this level, and of earlier ones what is computed again
};

class Levels {
 public:
  Levels(const Graph& graph, Regions& regions) : graph_(graph) {
    std::map<std::pair<uint32_t, uint32_t>, std::set<uint32_t>> nodes;
    for (uint32_t id = 0; id < graph.nodes.size(); ++id)
      if (regions.is_inside(id)) nodes[{regions[id].attention, regions[id].level}].insert(id);
    for (auto& [key, members] : nodes) {
      numbers_[key] = static_cast<uint32_t>(levels_.size());
      for (auto it = members.rbegin(); it != members.rend(); ++it)
        for (Value v : graph.nodes[*it].inputs)
          if (v && is_again(regions, v, key.first, key.second)) members.insert(v.node);
      levels_.push_back({key.first, key.second, {members.begin(), members.end()}});
    }
  }

  // Whether a level computes what an earlier one has computed anew.
  static bool is_again(const Regions& regions, Value v, uint32_t attention, uint32_t level) {
    const Regions::Place& p = regions[v.node];
    return p.attention == attention && p.open && p.level < level && regions.is_large(v, attention);
  }
  uint32_t of(const Regions::Place& p) const { return numbers_.at({p.attention, p.level}); }
  const Level& operator[](uint32_t number) const { return levels_[number]; }
  size_t count() const { return levels_.size(); }

 private:
  const Graph& graph_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> numbers_;
  std::vector<Level> levels_;
};

// Emits one level.
class BlockWriter {
 public:
  BlockWriter(ir::Rewriter& r, const Regions& regions, const Level& level, const std::vector<bool>& is_result)
      : r_(r),
        from_(r.from()),
        regions_(regions),
        level_(level),
        attention_(regions.attentions()[level.attention]),
        is_result_(is_result),
        inside_(level.nodes.begin(), level.nodes.end()) {}

  void write(int64_t rows) {
    for (int64_t at = 0; at < attention_.queries; at += rows_) {
      at_ = at, rows_ = std::min(rows, attention_.queries - at);
      done_.clear(), cut_.clear();
      for (uint32_t id : level_.nodes) done_[id] = compute(id);
      for (uint32_t id : level_.nodes)
        if (is_made_here(id)) keep(id);
    }
    for (uint32_t id : level_.nodes)
      if (is_made_here(id)) finish(id);
  }

 private:
  bool is_made_here(uint32_t id) const { return regions_[id].level == level_.level && is_result_[id]; }

  Value compute(uint32_t id) {
    const Node& n = from_.nodes[id];
    const BlockRule& rule = regions_[id].rule;
    std::vector<Value> operands;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const Value v = n.inputs[i];
      operands.push_back(v ? operand(v, rule.operands[i], n.op == Op::matmul && i == 0) : v);
    }
    r_.begin(id);
    return r_.builder().emit(n.op, operands, attributes_of(n, rule.axis, rows_));
  }

  Value operand(Value v, int64_t axis, bool is_multiplied) {
    if (inside_.contains(v.node)) return done_.at(v.node);
    return axis == kNoAxis ? r_[v] : cut(v, axis, is_multiplied);
  }

  // This block's part of what is not computed here.
  Value cut(Value v, int64_t axis, bool is_multiplied) {
    auto [it, is_new] = cut_.try_emplace({v, axis});
    if (!is_new) return it->second;
    const Value part = is_computed_by_block(v, axis) ? recompute(v, axis) : slice(v, axis, is_multiplied);
    return cut_[{v, axis}] = part;
  }

  Value slice(Value v, int64_t axis, bool is_multiplied) {
    ir::Builder& b = r_.builder();
    Dims sizes = from_.type(v).shape, starts(sizes.size(), 0), steps(sizes.size(), 1);
    starts[axis] = at_, sizes[axis] = rows_;
    const Value whole = is_multiplied ? seen_anew(r_[v]) : r_[v];
    return b.emit(Op::slice, {whole}, Attrs().add(starts).add(sizes).add(steps));
  }

  // Equal applications are one. So that an earlier level's are not kept for this one, they begin with other values.
  Value seen_anew(Value v) {
    for (uint32_t l = 0; l < level_.level; ++l) v = r_.builder().emit(Op::detach, {v});
    return v;
  }

  // A mask, say, that is made of positions.
  bool is_computed_by_block(Value v, int64_t axis) const {
    const Node& n = from_[v];
    if (regions_.is_inside(v.node) || n.types.size() != 1 || ir::is_leaf(n.op)) return false;
    return from_.type(v).numel() >= attention_.queries * attention_.keys && operands_of(from_, n, axis);
  }

  Value recompute(Value v, int64_t axis) {
    const Node& n = from_[v];
    const std::vector<int64_t> axes = *operands_of(from_, n, axis);
    std::vector<Value> operands;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const bool is_cut = axes[i] != kNoAxis, goes_on = is_cut && is_computed_by_block(n.inputs[i], axes[i]);
      Value x = is_cut ? cut(n.inputs[i], axes[i], false) : r_[n.inputs[i]];
      if (n.op == Op::random_uniform ? i == 1 : is_cut && !goes_on) x = seen_anew(x);
      operands.push_back(x);
    }
    r_.begin(v.node);
    return r_.builder().emit(n.op, operands, attributes_of(n, axis, rows_));
  }

  void keep(uint32_t id) {
    auto& kept = kept_[id];
    if (regions_[id].rule.axis != kNoAxis || kept.empty())
      kept.push_back(done_[id]);
    else
      r_.begin(id), kept[0] = r_.builder().add(kept[0], done_[id]);
  }
  void finish(uint32_t id) {
    auto& kept = kept_[id];
    r_.begin(id);
    const int64_t axis = regions_[id].rule.axis;
    r_.replace(id, kept.size() == 1 ? kept[0] : r_.builder().emit(Op::cat, kept, Attrs{{axis}}));
  }

  ir::Rewriter& r_;
  const Graph& from_;
  const Regions& regions_;
  const Level& level_;
  const Attention& attention_;
  const std::vector<bool>& is_result_;  // by node: it is read beyond its level
  const std::set<uint32_t> inside_;
  int64_t at_ = 0, rows_ = 0;
  std::map<uint32_t, Value> done_;
  std::map<std::pair<Value, int64_t>, Value> cut_;
  std::map<uint32_t, std::vector<Value>> kept_;
};

// Nodes in order, but what a level needs before its first result.
class Reordered {
 public:
  Reordered(const Graph& graph, const Libraries& libraries)
      : r_(graph),
        libraries_(libraries),
        regions_(graph, libraries),
        levels_(graph, regions_),
        is_result_(graph.nodes.size()),
        states_(graph.nodes.size() + levels_.count()) {
    for (uint32_t id = 0; id < graph.nodes.size(); ++id) is_result_[id] = regions_[id].is_exit;
    for (uint32_t l = 0; l < levels_.count(); ++l)
      for (uint32_t id : levels_[l].nodes)
        for (Value v : graph.nodes[id].inputs)
          if (v && is_saved_for(l, v)) is_result_[v.node] = true;
  }

  bool changes() const { return regions_.any(); }

  // Nothing where levels of several attentions wait for each other.
  std::optional<Graph> run() {
    for (uint32_t id = 0; id < count(); ++id) {
      if (regions_.is_inside(id) && !is_result_[id]) continue;
      left_ = {unit_of(id)};
      while (!left_.empty())
        if (!step()) return {};
    }
    return r_.finish();
  }

 private:
  enum class State : uint8_t { New, Begun, Done };
  uint32_t count() const { return static_cast<uint32_t>(r_.from().nodes.size()); }
  // What is emitted at once: a node, or after all of those a level.
  uint32_t unit_of(uint32_t id) const { return regions_.is_inside(id) ? count() + levels_.of(regions_[id]) : id; }
  bool is_saved_for(uint32_t l, Value v) const {
    const Level& level = levels_[l];
    const Regions::Place& p = regions_[v.node];
    return p.attention != kNone && !(p.attention == level.attention && p.level == level.level && p.open) &&
           !Levels::is_again(regions_, v, level.attention, level.level);
  }

  std::vector<uint32_t> needs_of(uint32_t unit) const {
    std::vector<uint32_t> needs;
    const auto look = [&](uint32_t id) {
      for (Value v : r_.from().nodes[id].inputs)
        if (v && unit_of(v.node) != unit &&
            (unit < count() || !regions_.is_inside(v.node) || is_saved_for(unit - count(), v)))
          needs.push_back(unit_of(v.node));
    };
    if (unit < count())
      look(unit);
    else
      for (uint32_t id : levels_[unit - count()].nodes) look(id);
    return needs;
  }

  bool step() {
    const uint32_t unit = left_.back();
    if (states_[unit] == State::Done) return left_.pop_back(), true;
    const bool is_back = states_[unit] == State::Begun;
    states_[unit] = State::Begun;
    if (!is_back)
      for (uint32_t need : needs_of(unit)) {
        if (states_[need] == State::Begun) return false;
        if (states_[need] == State::New) left_.push_back(need);
      }
    if (left_.back() != unit) return true;
    left_.pop_back();
    states_[unit] = State::Done;
    if (unit < count()) {
      r_.begin(unit);
      r_.copy(unit);
    } else {
      const Level& level = levels_[unit - count()];
      BlockWriter(r_, regions_, level, is_result_).write(rows_of(regions_.attentions()[level.attention]));
    }
    return true;
  }

  int64_t rows_of(const Attention& a) const {
    const int64_t fit = libraries_.bytes_of_scores() * a.queries / a.bytes;
    return std::max({fit, (a.queries + kMostBlocks - 1) / kMostBlocks, kLeastRows});
  }

  ir::Rewriter r_;
  const Libraries& libraries_;
  Regions regions_;
  Levels levels_;
  std::vector<bool> is_result_;
  std::vector<State> states_;
  std::vector<uint32_t> left_;  // what is to be emitted, the next last
};

}  // namespace

bool makes_many_scores(const Node& n, const Libraries& libraries) {
  const int64_t worth = kWorthIt * libraries.bytes_of_scores();
  return worth > 0 && is_product_of_queries(n) && n.types[0].bytes() >= worth;
}

Graph query_blocks(const Graph& graph, const Libraries& libraries) {
  Reordered reordered(graph, libraries);
  if (!reordered.changes()) return graph;
  return reordered.run().value_or(graph);
}

}  // namespace lazuli::lowering
