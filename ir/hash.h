// Structural hashes: equal graphs hash equally, whatever lines recorded them. Used to share nodes within a graph and
// to find a graph's executable; whoever finds one confirms with `same_structure`.
#pragma once
#include "ir/graph.h"

namespace lazuli::ir {

constexpr uint64_t mix(uint64_t hash, uint64_t x) {
  hash = (hash ^ x) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}
// A hash as tables are searched with: all of it, unless LAZULI_HASH_BITS leaves only so many bits, with which tests
// show that what meets under one hash is told apart.
extern const uint64_t hash_mask;
inline uint64_t for_lookup(uint64_t hash) { return hash & hash_mask; }

uint64_t hash_application(Op op, std::span<const Value> inputs, const Attrs& attrs, std::span<const Type> types);
uint64_t hash(const Type& type);
uint64_t hash(const Graph& graph);
bool same_structure(const Graph& a, const Graph& b);

}  // namespace lazuli::ir
