// Structural hashes: equal graphs hash equally, whatever lines recorded them. Used to share nodes within a graph and
// to find a graph's executable; whoever finds one confirms with `same_structure`.
#pragma once
#include "ir/graph.h"

namespace lazuli::ir {

constexpr uint64_t mix(uint64_t hash, uint64_t x) {
  hash = (hash ^ x) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}
uint64_t hash_application(Op op, std::span<const Value> inputs, const Attrs& attrs, std::span<const Type> types);
uint64_t hash(const Type& type);
uint64_t hash(const Graph& graph);
bool same_structure(const Graph& a, const Graph& b);

}  // namespace lazuli::ir
