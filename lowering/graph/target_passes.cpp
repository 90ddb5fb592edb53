#include "lowering/graph/target_passes.h"
#include "lowering/graph/align_products.h"
#include "lowering/graph/byte_products.h"
#include "lowering/graph/dequantized_products.h"
#include "lowering/graph/early_operands.h"
#include "lowering/graph/query_blocks.h"

namespace lazuli::lowering {

std::vector<ir::Pass> target_passes(const Libraries& libraries) {
  return {
#define PASS(name, begins_at, doc)                                             \
  {#name, doc, [&](const ir::Graph& graph) { return name(graph, libraries); }, \
   [&](const ir::Node& node) { return begins_at(node, libraries); }},
#include "lowering/graph/target_passes.def"
#undef PASS
  };
}

std::vector<ir::Pass> all_passes(const Libraries& libraries) {
  const auto common = ir::all_passes();
  std::vector<ir::Pass> all(common.begin(), common.end());
  for (ir::Pass& pass : target_passes(libraries)) all.push_back(std::move(pass));
  return all;
}

}  // namespace lazuli::lowering
