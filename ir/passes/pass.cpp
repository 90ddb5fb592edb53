#include "ir/passes/pass.h"
#include <chrono>
#include "ir/error.h"
#include "ir/hash.h"
#include "ir/verify.h"

namespace lazuli::ir {
namespace {

constexpr Pass kPasses[] = {
#define PASS(name, doc) {#name, doc, &passes::name},
#include "ir/passes/passes.def"
#undef PASS
};

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

std::span<const Pass> all_passes() { return kPasses; }

const Pass* find_pass(std::string_view name) {
  for (const Pass& p : kPasses)
    if (p.name == name) return &p;
  return nullptr;
}

Graph run_passes(Graph graph, std::span<const Pass> passes, const PassOptions& options) {
  if (options.verify) verify(graph);
  for (const Pass& pass : passes) {
    if (std::ranges::find(options.disabled, pass.name) != options.disabled.end()) continue;
    auto start = std::chrono::steady_clock::now();
    Graph next = run_one(graph, pass, options.verify);
    std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (options.on_time) options.on_time(pass, took.count());
    if (options.on_change && !same_structure(graph, next)) options.on_change(pass, graph, next);
    graph = std::move(next);
  }
  return graph;
}

}  // namespace lazuli::ir
