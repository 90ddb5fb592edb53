#include "ir/reads.h"

#include <array>
#include <map>
#include <mutex>
#include <optional>
#include "ir/error.h"
#include "ir/hash.h"

namespace lazuli::ir {
namespace {

struct Trial {
  Graph graph;
  std::vector<Value> operands, results;
};

// Marks what the rule read, whether or not the cotangents `out` depend on it: it will read the same again.
void mark(const Trial& t, std::span<const Value> out, Reads& reads) {
  std::vector<bool> read(t.graph.nodes.size());
  for (const Node& n : t.graph.nodes)
    for (Value v : n.inputs)
      if (v) read[v.node] = true;
  for (Value v : out)
    if (v) read[v.node] = true;
  for (size_t i = 0; i < t.operands.size(); ++i)
    if (t.operands[i] && read[t.operands[i].node]) reads.operands |= 1u << i;
  for (size_t i = 0; i < t.results.size(); ++i)
    if (read[t.results[i].node]) reads.results |= 1u << i;
}

// `given`: which results have a cotangent.
void try_one(Op op, std::span<const Type* const> operands, std::span<const Type* const> results, const Attrs& attrs,
             uint32_t needs, uint32_t given, Reads& reads) {
  Trial t;
  GraphBuilder b(t.graph);
  for (const Type* type : operands) t.operands.push_back(type ? b.input(*type) : Value{});
  for (const Type* type : results) t.results.push_back(b.input(*type));
  std::vector<Value> cotangents, out(operands.size());
  for (size_t i = 0; i < results.size(); ++i) cotangents.push_back(given >> i & 1 ? b.input(*results[i]) : Value{});
  vjp(b, {op, t.operands, t.results, attrs}, cotangents, needs, out);
  mark(t, out, reads);
}

Reads find(Op op, std::span<const Type* const> operands, std::span<const Type* const> results, const Attrs& attrs,
           uint32_t needs) {
  Reads reads;
  uint32_t floating = 0;
  for (size_t i = 0; i < results.size() && i < 32; ++i)
    if (is_floating(results[i]->dtype)) floating |= 1u << i;
  try {
    for (size_t i = 0; i < results.size() && i < 32; ++i)
      if (floating >> i & 1) try_one(op, operands, results, attrs, needs, 1u << i, reads);
    if (floating & (floating - 1)) try_one(op, operands, results, attrs, needs, floating, reads);
    reads.exists = true;
  } catch (const InternalError&) {
    return {};
  } catch (const TypeError&) {
    return {};
  }
  return reads;
}

// An application over few operands, of a row whose shapes have no say, in two words; else nothing.
struct ShortKey {
  uint64_t row = 0, types = 0;
  friend bool operator==(const ShortKey&, const ShortKey&) = default;
};
std::optional<ShortKey> short_key(Op op, std::span<const Type* const> operands, std::span<const Type* const> results,
                                  uint32_t needs) {
  constexpr size_t kMost = 8, kBits = 8;
  const size_t count = operands.size() + results.size();
  if (count > kMost || !reads_alike_for_all_shapes(op)) return {};
  ShortKey key{static_cast<uint64_t>(op) << 32 | operands.size() << 16 | results.size() << 8 | needs, 0};
  for (auto types : {operands, results})
    for (const Type* t : types) key.types = key.types << kBits | (t ? static_cast<uint64_t>(t->dtype) + 1 : 0);
  return key;
}

Reads find_known(Op op, std::span<const Type* const> operands, std::span<const Type* const> results, const Attrs& attrs,
                 uint32_t needs) {
  const bool by_shape = !reads_alike_for_all_shapes(op);
  std::vector<uint64_t> key{static_cast<uint64_t>(op) | operands.size() << 16, needs};
  for (auto types : {operands, results})
    for (const Type* t : types) {
      key.push_back(t ? static_cast<uint64_t>(t->dtype) + 1 : 0);
      if (!t || !by_shape) continue;
      key.push_back(t->shape.size());
      key.insert(key.end(), t->shape.begin(), t->shape.end());
    }
  if (by_shape) key.insert(key.end(), attrs.flat().begin(), attrs.flat().end());
  constexpr size_t kMost = 1 << 12;  // shapes may change for ever
  static std::mutex mutex;
  static auto* known = new std::map<std::vector<uint64_t>, Reads>;
  std::lock_guard lock(mutex);
  if (known->size() >= kMost) known->clear();
  auto [it, fresh] = known->try_emplace(std::move(key));
  if (fresh) it->second = find(op, operands, results, attrs, needs);
  return it->second;
}

}  // namespace

bool reads_alike_for_all_shapes(Op op) { return is_elementwise(op) || is_contraction(op) || is_view(op); }

Reads reads_of_derivative(Op op, std::span<const Type* const> operands, std::span<const Type* const> results,
                          const Attrs& attrs, uint32_t needs) {
  const auto key = short_key(op, operands, results, needs);
  if (!key) return find_known(op, operands, results, attrs, needs);
  struct Recent {
    ShortKey key;
    Reads reads;
  };
  static thread_local std::array<Recent, 256> recent;
  Recent& r = recent[mix(key->row, key->types) % recent.size()];
  if (r.key != *key) r = {*key, find_known(op, operands, results, attrs, needs)};
  return r.reads;
}

}  // namespace lazuli::ir
