#include "ir/suffix.h"
#include <algorithm>
#include <map>
#include <unordered_map>

namespace lazuli::ir {
namespace {

uint64_t key(Value v) { return uint64_t{v.node} << 32 | v.result; }

std::unordered_map<uint64_t, uint32_t> output_positions(const Graph& graph) {
  std::unordered_map<uint64_t, uint32_t> positions;
  for (uint32_t i = 0; i < graph.outputs.size(); ++i) positions.emplace(key(graph.outputs[i]), i);
  return positions;
}

// Goes through two graphs from their ends.
class Comparison {
 public:
  Comparison(const Graph& a, const Graph& b) : a_(a), b_(b), outputs_of_a_(output_positions(a)), outputs_of_b_(output_positions(b)) {}

  size_t run() {
    uint32_t i = static_cast<uint32_t>(a_.nodes.size()), j = static_cast<uint32_t>(b_.nodes.size());
    for (size_t count = 0;; ++count)
      if (!step_back(a_, i) || !step_back(b_, j) || !same(i, j)) return count;
  }

 private:
  // To the node before `n` that is no leaf.
  static bool step_back(const Graph& graph, uint32_t& n) {
    while (n-- > 0)
      if (!is_leaf(graph.nodes[n].op)) return true;
    return false;
  }

  bool same(uint32_t i, uint32_t j) {
    const Node &x = a_.nodes[i], &y = b_.nodes[j];
    if (x.op != y.op || x.attrs != y.attrs || x.types != y.types || x.inputs.size() != y.inputs.size()) return false;
    for (uint32_t r = 0; r < x.types.size(); ++r)
      if (outputs_of_a_.contains(key({i, r})) != outputs_of_b_.contains(key({j, r})) || !pair({i, r}, {j, r})) return false;
    for (size_t k = 0; k < x.inputs.size(); ++k)
      if (!same_operand(x.inputs[k], y.inputs[k])) return false;
    return true;
  }

  bool same_operand(Value v, Value w) {
    if (!v || !w) return !v && !w;
    const Node &x = a_[v], &y = b_[w];
    if (is_own_leaf(x) || is_own_leaf(y)) {
      // Which of the run-time numbers it is does not matter.
      if (x.op != y.op || !(x.op == Op::scalar || x.attrs == y.attrs)) return false;
    }
    return a_.type(v) == b_.type(w) && pair(v, w);
  }
  // Unlike an input, which may stand for what the other graph computes before.
  static bool is_own_leaf(const Node& node) { return is_leaf(node.op) && node.op != Op::input; }

  // Whether v and w have stood for each other so far.
  bool pair(Value v, Value w) {
    return to_b_.emplace(key(v), key(w)).first->second == key(w) && to_a_.emplace(key(w), key(v)).first->second == key(v);
  }

  const Graph &a_, &b_;
  const std::unordered_map<uint64_t, uint32_t> outputs_of_a_, outputs_of_b_;
  std::unordered_map<uint64_t, uint64_t> to_a_, to_b_;
};

class Splitter {
 public:
  Splitter(const Graph& whole, size_t count) : whole_(whole), begin_(whole.nodes.size()), outputs_(output_positions(whole)) {
    while (count > 0 && begin_ > 0)
      if (!is_leaf(whole.nodes[--begin_].op)) --count;
    parts_.values = whole.input_count + static_cast<uint32_t>(whole.outputs.size());
  }

  Parts run() {
    Part &first = parts_.first, &second = parts_.second;
    for (uint32_t n = 0; n < whole_.nodes.size(); ++n)
      if (!is_leaf(whole_.nodes[n].op)) copy(n, n < begin_ ? first : second);
    // In the order of the whole's; an output that is a leaf is the first part's.
    for (uint32_t i = 0; i < whole_.outputs.size(); ++i) {
      const Value v = whole_.outputs[i];
      Part& part = v.node >= begin_ && !is_leaf(whole_[v].op) ? second : first;
      part.graph.outputs.push_back(operand(v, part));
      part.outputs.push_back(whole_.input_count + i);
    }
    for (const auto& [value, handed] : handed_over_)
      if (!outputs_.contains(key(value))) {
        first.graph.outputs.push_back(operand(value, first));
        first.outputs.push_back(handed.number);
      }
    finish(second, {});
    finish(first, second.inputs);
    return std::move(parts_);
  }

 private:
  void copy(uint32_t n, Part& part) {
    Node node = whole_.nodes[n];
    for (Value& v : node.inputs)
      if (v) v = operand(v, part);
    add(n, std::move(node), part);
  }

  Value add(uint32_t n, Node node, Part& part) {
    part.graph.nodes.push_back(std::move(node));
    const Value v{static_cast<uint32_t>(part.graph.nodes.size() - 1), 0};
    moved_[&part == &parts_.second][n] = v.node;
    return v;
  }

  // The whole's value in a part.
  Value operand(Value v, Part& part) {
    auto& moved = moved_[&part == &parts_.second];
    if (const auto it = moved.find(v.node); it != moved.end()) return {it->second, v.result};
    if (!is_leaf(whole_[v].op)) return take_over(v);
    Node leaf = whole_[v];
    if (leaf.op == Op::input) leaf = input(static_cast<uint32_t>(leaf.attrs.number(0)), leaf.types[0], leaf.line, part);
    if (leaf.op == Op::scalar) {
      part.scalars.push_back(static_cast<uint32_t>(leaf.attrs.number(0)));
      leaf.attrs = Attrs{{static_cast<int64_t>(part.scalars.size() - 1)}};
    }
    return add(v.node, std::move(leaf), part);
  }

  // The second part's input for a value of the first.
  Value take_over(Value v) {
    const auto [it, fresh] = handed_over_.try_emplace(v);
    HandedOver& h = it->second;
    if (fresh) {
      const auto output = outputs_.find(key(v));
      h.number = output == outputs_.end() ? parts_.values++ : whole_.input_count + output->second;
      h.input = static_cast<uint32_t>(parts_.second.graph.nodes.size());
      parts_.second.graph.nodes.push_back(input(h.number, whole_.type(v), whole_[v].line, parts_.second));
    }
    return {h.input, 0};
  }

  static Node input(uint32_t number, const Type& type, uint32_t line, Part& part) {
    part.inputs.push_back(number);
    return {Op::input, {}, Attrs{{static_cast<int64_t>(part.inputs.size() - 1)}}, {type}, line};
  }

  void finish(Part& part, const std::vector<uint32_t>& read_later) {
    part.graph.lines = whole_.lines;
    part.graph.input_count = static_cast<uint32_t>(part.inputs.size());
    part.graph.scalar_count = static_cast<uint32_t>(part.scalars.size());
    for (uint32_t number : part.inputs) {
      const bool input = number < whole_.input_count, output = !input && number < whole_.input_count + whole_.outputs.size();
      part.last.push_back(!output && std::ranges::find(read_later, number) == read_later.end());
      part.graph.donated.push_back(part.last.back() && (!input || (number < whole_.donated.size() && whole_.donated[number])));
    }
  }

  const Graph& whole_;
  size_t begin_;  // of the second part
  const std::unordered_map<uint64_t, uint32_t> outputs_;
  Parts parts_;
  std::unordered_map<uint32_t, uint32_t> moved_[2];  // by part: the whole's nodes that are there
  struct HandedOver {
    uint32_t number, input;  // and the second part's node
  };
  std::map<Value, HandedOver> handed_over_;  // values of the first part that the second reads
};

}  // namespace

size_t applications(const Graph& graph) {
  return static_cast<size_t>(std::ranges::count_if(graph.nodes, [](const Node& n) { return !is_leaf(n.op); }));
}

size_t common_suffix(const Graph& a, const Graph& b) { return Comparison(a, b).run(); }

Parts split(const Graph& graph, size_t count) { return Splitter(graph, count).run(); }

}  // namespace lazuli::ir
