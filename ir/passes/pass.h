// Passes take a graph and give a new one that computes the same outputs. The runner owns what is not a pass's
// business: order, disabling by name, timing, the verifier, reporting changes.
#pragma once
#include <functional>
#include <string>
#include "ir/graph.h"

namespace lazuli::ir {

struct Pass {
  std::string_view name;
  std::string_view doc;
  std::function<Graph(const Graph& graph)> run;
  std::function<bool(const Node& node)> begins_at;  // whether a graph with such a node may change; none: any does
};
std::span<const Pass> all_passes();            // passes.def
const Pass* find_pass(std::string_view name);  // null: there is none

struct PassOptions {
  std::vector<std::string> disabled;
  bool verify = false;
  // Called after each pass that changed the graph.
  std::function<void(const Pass& pass, const Graph& before, const Graph& after)> on_change;
  std::function<void(const Pass& pass, double milliseconds)> on_time;
};
// Runs `passes` (all of them: all_passes()) in order. Errors name the pass.
Graph run_passes(Graph graph, std::span<const Pass> passes, const PassOptions& options = {});

// Composites become primitive rows but for those that stay; what a decomposition uses does not.
Graph decompose_but(const Graph& graph, bool (*stays)(const Node& composite));

namespace passes {
#define PASS(name, begins_at, doc) Graph name(const Graph& graph);
#include "ir/passes/passes.def"
#undef PASS
}  // namespace passes

}  // namespace lazuli::ir
