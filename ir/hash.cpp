#include "ir/hash.h"

#include <algorithm>
#include <cstdlib>

namespace lazuli::ir {

const uint64_t hash_mask = [] {
  const char* text = std::getenv("LAZULI_HASH_BITS");
  const int bits = text ? std::clamp(std::atoi(text), 0, 64) : 64;
  return bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
}();

uint64_t hash(const Type& type) {
  uint64_t h = mix(type.shape.size(), static_cast<uint64_t>(type.dtype));
  for (Size n : type.shape) h = mix(h, n.bits());
  return h;
}

uint64_t hash_application(Op op, std::span<const Value> inputs, const Attrs& attrs, std::span<const Type> types) {
  uint64_t h = mix(inputs.size(), static_cast<uint64_t>(op));
  for (Value v : inputs) h = mix(h, uint64_t{v.node} << 8 | v.result);
  for (Size x : attrs.flat()) h = mix(h, x.bits());
  for (const Type& t : types) h = mix(h, hash(t));
  return h;
}

uint64_t hash(const Graph& graph) {
  uint64_t h = graph.nodes.size();
  for (const Node& n : graph.nodes) h = mix(h, hash_application(n.op, n.inputs, n.attrs, n.types));
  for (Value v : graph.outputs) h = mix(h, uint64_t{v.node} << 8 | v.result);
  for (size_t i = 0; i < graph.donated.size(); ++i) h = mix(h, graph.donated[i] ? i + 1 : 0);
  return h;
}

bool same_structure(const Graph& a, const Graph& b) {
  auto same_node = [](const Node& x, const Node& y) {
    return x.op == y.op && x.inputs == y.inputs && x.attrs == y.attrs && x.types == y.types;
  };
  return a.outputs == b.outputs && a.donated == b.donated && a.fleeting == b.fleeting &&
         a.input_count == b.input_count && a.scalar_count == b.scalar_count &&
         std::ranges::equal(a.nodes, b.nodes, same_node);
}

}  // namespace lazuli::ir
