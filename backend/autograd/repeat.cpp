#include "backend/autograd/repeat.h"

#include <algorithm>

namespace lazuli::backend {
namespace {

uint64_t hash_of(const lazy::Trace::Place& begin, std::span<const uint64_t> structure) {
  uint64_t hash = begin.hash;
  for (uint64_t word : structure) hash = lazy::mix(hash, word);
  return hash;
}

}  // namespace

BackwardKey::BackwardKey(const lazy::Trace::Place& begin, std::span<const uint64_t> structure)
    : begin(begin), structure(structure), hash(hash_of(begin, structure)) {}

const BackwardRecord* BackwardRecords::find(const BackwardKey& key) const {
  auto it = known_.find(key.hash);
  if (it == known_.end()) return nullptr;
  const BackwardRecord& record = it->second;
  return record.excerpt.begin == key.begin && std::ranges::equal(record.structure, key.structure) ? &record : nullptr;
}

bool BackwardRecords::is_wanted(const BackwardKey& key) {
  return std::exchange(asked_[key.hash % asked_.size()], key.hash) == key.hash;
}

void BackwardRecords::keep(const BackwardKey& key, BackwardRecord record) {
  if (entries_ + record.excerpt.entries.size() > kMostEntries) {
    known_.clear();
    entries_ = 0;
  }
  BackwardRecord& known = known_[key.hash];  // another's, if their hashes are the same
  entries_ += record.excerpt.entries.size() - known.excerpt.entries.size();
  known = std::move(record);
}

BackwardRecords& backward_records() {
  static auto* records = new BackwardRecords;  // outlives every thread
  return *records;
}

}  // namespace lazuli::backend
