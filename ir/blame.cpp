#include "ir/blame.h"

#include <algorithm>

namespace lazuli::ir {

std::optional<Blame> find_blame(const Graph& graph, Value wrong, const std::function<bool(const Portion&)>& is_wrong) {
  const std::vector<bool> is_needed = ancestors(graph, {&wrong, 1}, [](uint32_t) { return false; });
  std::vector<std::vector<Value>> used(graph.nodes.size());  // results that lead to `wrong`
  used[wrong.node].push_back(wrong);
  std::vector<uint32_t> nodes;
  for (uint32_t id = 0; id < graph.nodes.size(); ++id) {
    if (!is_needed[id]) continue;
    if (!is_leaf(graph.nodes[id].op)) nodes.push_back(id);
    for (Value v : graph.nodes[id].inputs)
      if (v && std::ranges::find(used[v.node], v) == used[v.node].end()) used[v.node].push_back(v);
  }
  if (nodes.empty() || !is_wrong(cut(graph, 0, {&wrong, 1}))) return {};
  // The last of them is wrong; before the first everything is right.
  size_t right = 0, first = nodes.size();  // counts of nodes
  while (first - right > 1) {
    const size_t middle = (right + first) / 2;
    (is_wrong(cut(graph, 0, used[nodes[middle - 1]])) ? first : right) = middle;
  }
  Blame blame{nodes[first - 1], cut(graph, 0, used[nodes[first - 1]])};
  // From the beginning on it is wrong, and from behind it there is nothing.
  size_t from = 0, behind = first;
  while (behind - from > 1) {
    const size_t middle = (from + behind) / 2;
    Portion part = cut(graph, nodes[middle], used[blame.node]);
    const bool wrong_from_here = is_wrong(part);
    (wrong_from_here ? from : behind) = middle;
    if (wrong_from_here) blame.part = std::move(part);
  }
  return blame;
}

}  // namespace lazuli::ir
