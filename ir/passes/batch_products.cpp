// A weight that is used at every step of time is multiplied by a few rows each time. Those products that do not wait
// for each other are one product with all the rows: the weight is walked through once.
#include <map>
#include <utility>
#include "ir/passes/pass.h"
#include "ir/passes/rewrite.h"

namespace lazuli::ir::passes {
namespace {

constexpr size_t kFewest = 4;
// Elements of a batch's result: who takes large products apart does so for memory's sake.
constexpr int64_t kLargest = int64_t{1} << 24;
constexpr uint32_t kAlone = UINT32_MAX;

// Products with the same right operand, none of which needs another.
using Batch = std::vector<uint32_t>;

// Of matrices, the left one so low that its copy is nothing beside the weight.
bool has_few_rows(const Graph& g, const Node& n) {
  if (n.op != Op::matmul || n.types[0].rank() != 2) return false;
  const Dims &a = g.type(n.inputs[0]).shape, &b = g.type(n.inputs[1]).shape;
  return a.size() == 2 && b.size() == 2 && a[0] > 0 && 4 * a[0] <= b[1];
}

class Batches {
 public:
  explicit Batches(const Graph& graph) : graph_(graph), batch_of_(graph.nodes.size(), kAlone) {
    std::map<Value, std::vector<uint32_t>> by_weight;
    for (uint32_t id = 0; id < graph.nodes.size(); ++id)
      if (has_few_rows(graph, graph.nodes[id])) by_weight[graph.nodes[id].inputs[1]].push_back(id);
    for (const auto& [weight, products] : by_weight)
      if (products.size() >= kFewest) try_to_add(independent(products));
  }

  bool empty() const { return batches_.empty(); }
  const Batch* of(uint32_t id) const { return batch_of_[id] == kAlone ? nullptr : &batches_[batch_of_[id]]; }

 private:
  // Those that need equally many of the products before them do not need each other.
  std::vector<Batch> independent(const std::vector<uint32_t>& products) const {
    std::vector<uint32_t> level(graph_.nodes.size(), 0);
    std::map<uint32_t, std::pair<Batch, Size>> at_level;  // with the elements of their results
    std::vector<Batch> out;
    size_t next = 0;
    for (uint32_t id = 0; id < graph_.nodes.size(); ++id) {
      for (Value v : graph_.nodes[id].inputs)
        if (v) level[id] = std::max(level[id], level[v.node]);
      if (next == products.size() || products[next] != id) continue;
      ++next;
      auto& [batch, elements] = at_level[level[id]++];
      const Size more = graph_.nodes[id].types[0].numel();
      if (elements + more > kLargest) out.push_back(std::exchange(batch, {})), elements = 0;
      batch.push_back(id);
      elements += more;
    }
    for (auto& [number, last] : at_level) out.push_back(std::move(last.first));
    std::erase_if(out, [](const Batch& b) { return b.size() < kFewest; });
    return out;
  }

  // Batches of two matrices may need members of each other; then only the first matrix has any.
  void try_to_add(std::vector<Batch> batches) {
    const size_t before = batches_.size();
    for (Batch& batch : batches) {
      for (uint32_t id : batch) batch_of_[id] = static_cast<uint32_t>(batches_.size());
      batches_.push_back(std::move(batch));
    }
    if (batches_.size() == before || has_order()) return;
    for (size_t k = before; k < batches_.size(); ++k)
      for (uint32_t id : batches_[k]) batch_of_[id] = kAlone;
    batches_.resize(before);
  }

  // Whether every node can come after what it needs, with each batch at one place.
  bool has_order() const {
    const size_t n = graph_.nodes.size();
    auto place = [&](uint32_t id) { return batch_of_[id] == kAlone ? id : batches_[batch_of_[id]][0]; };
    std::vector<std::vector<uint32_t>> users(n);
    std::vector<uint32_t> missing(n, 0), ready;
    size_t places = 0, done = 0;
    for (uint32_t id = 0; id < n; ++id) {
      places += place(id) == id;
      for (Value v : graph_.nodes[id].inputs)
        if (v) users[place(v.node)].push_back(place(id)), ++missing[place(id)];
    }
    for (uint32_t id = 0; id < n; ++id)
      if (place(id) == id && !missing[id]) ready.push_back(id);
    for (; !ready.empty(); ++done) {
      const uint32_t id = ready.back();
      ready.pop_back();
      for (uint32_t user : users[id])
        if (--missing[user] == 0) ready.push_back(user);
    }
    return done == places;
  }

  const Graph& graph_;
  std::vector<uint32_t> batch_of_;
  std::vector<Batch> batches_;
};

// Nodes in order, but what a batch needs before its first product.
class Reordered {
 public:
  Reordered(const Graph& graph, const Batches& batches)
      : r_(graph), batches_(batches), done_(graph.nodes.size(), false) {}

  Graph run() {
    for (uint32_t id = 0; id < done_.size(); ++id) {
      left_ = {id};
      while (!left_.empty()) step();
    }
    return r_.finish();
  }

 private:
  void step() {
    const uint32_t id = left_.back();
    const Batch* batch = batches_.of(id);
    const size_t before = left_.size();
    if (!done_[id])
      for (uint32_t member : batch ? std::span<const uint32_t>(*batch) : std::span(&id, 1))
        for (Value v : r_.from().nodes[member].inputs)
          if (v && !done_[v.node]) left_.push_back(v.node);
    if (left_.size() > before) return;
    left_.pop_back();
    if (done_[id]) return;
    r_.begin(id);
    if (batch)
      multiply(*batch);
    else
      r_.copy(id), done_[id] = true;
  }

  void multiply(const Batch& batch) {
    Builder& b = r_.builder();
    auto operand = [&](uint32_t id, size_t k) { return r_[r_.from().nodes[id].inputs[k]]; };
    std::vector<Value> rows;
    for (uint32_t id : batch) rows.push_back(operand(id, 0));
    const Value all = b.emit(Op::matmul, {b.emit(Op::cat, rows, Attrs{{0}}), operand(batch[0], 1)});
    Size at = 0;
    for (uint32_t id : batch) {
      const Dims& shape = r_.from().nodes[id].types[0].shape;
      r_.replace(id, b.emit(Op::slice, {all}, Attrs{{at, 0}, {shape[0], shape[1]}, {1, 1}}));
      at += shape[0];
      done_[id] = true;
    }
  }

  Rewriter r_;
  const Batches& batches_;
  std::vector<bool> done_;
  std::vector<uint32_t> left_;  // what is to be built, the next last
};

}  // namespace

Graph batch_products(const Graph& graph) {
  const Batches batches(graph);
  return batches.empty() ? graph : Reordered(graph, batches).run();
}

}  // namespace lazuli::ir::passes
