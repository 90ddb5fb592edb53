#include "ir/passes/pass.h"
#include <algorithm>
#include <chrono>
#include "ir/error.h"
#include "ir/hash.h"
#include "ir/passes/rewrite.h"
#include "ir/verify.h"

namespace lazuli::ir {
namespace {

// What passes begin at.
bool composite(const Node& n) { return is_composite(n.op); }
bool strided(const Node& n) { return n.op == Op::as_strided || n.op == Op::as_strided_scatter; }
bool padded(const Node& n) { return n.op == Op::pad || n.op == Op::cat || n.op == Op::as_strided_scatter; }
bool single_element(const Node& n) { return is_elementwise(n.op) && n.types[0].rank() == 0; }
bool reduction(const Node& n) { return is_reduction(n.op); }
bool product(const Node& n) { return is_contraction(n.op); }
bool reduction_or_product(const Node& n) { return reduction(n) || product(n); }
bool view(const Node& n) { return is_view(n.op); }
constexpr bool (*any)(const Node&) = nullptr;

const std::vector<Pass>& passes_in_order() {
  static const auto* all = new std::vector<Pass>{
#define PASS(name, begins_at, doc) {#name, doc, &passes::name, begins_at},
#include "ir/passes/passes.def"
#undef PASS
  };
  return *all;
}

Graph run_one(const Graph& graph, const Pass& pass, bool check) {
  try {
    Graph out = pass.run(graph);
    if (check) verify(out);
    return out;
  } catch (const std::exception& e) {
    throw InternalError("pass " + std::string(pass.name) + ": " + e.what());
  }
}

}  // namespace

std::span<const Pass> all_passes() { return passes_in_order(); }

const Pass* find_pass(std::string_view name) {
  for (const Pass& p : all_passes())
    if (p.name == name) return &p;
  return nullptr;
}

Graph run_passes(Graph graph, std::span<const Pass> passes, const PassOptions& options) {
  if (options.verify) verify(graph);
  for (const Pass& pass : passes) {
    if (std::ranges::find(options.disabled, pass.name) != options.disabled.end()) continue;
    auto start = std::chrono::steady_clock::now();
    if (pass.begins_at && std::ranges::none_of(graph.nodes, pass.begins_at)) {
      if (options.on_time) options.on_time(pass, 0);
      continue;
    }
    Graph next = run_one(graph, pass, options.verify);
    std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (options.on_time) options.on_time(pass, took.count());
    if (options.on_change && !same_structure(graph, next)) options.on_change(pass, graph, next);
    graph = std::move(next);
  }
  return graph;
}

}  // namespace lazuli::ir
