// Values that no output needs are dropped; a node stays if any of its results is needed. Rebuilding shares equal
// applications, as it does in every pass.
#include "ir/passes/pass.h"
#include "ir/passes/rewrite.h"

namespace lazuli::ir::passes {

Graph dead_code(const Graph& graph) {
  std::vector<bool> live(graph.nodes.size(), false);
  for (Value v : graph.outputs) live[v.node] = true;
  for (uint32_t id = static_cast<uint32_t>(graph.nodes.size()); id-- > 0;)
    if (live[id])
      for (Value v : graph.nodes[id].inputs)
        if (v) live[v.node] = true;
  Rewriter r(graph);
  for (uint32_t id = 0; id < graph.nodes.size(); ++id)
    if (live[id]) r.copy(id);
  return r.finish();
}

}  // namespace lazuli::ir::passes
