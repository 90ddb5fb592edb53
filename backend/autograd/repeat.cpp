#include "backend/autograd/repeat.h"

#include <algorithm>

namespace lazuli::backend {
namespace {

uint64_t key_of(const lazy::Trace::Place& place, std::span<const uint64_t> structure) {
  uint64_t key = place.hash;
  for (uint64_t word : structure) key = lazy::mix(key, word);
  return key;
}

}  // namespace

const BackwardRecord* BackwardRecords::find(const lazy::Trace::Place& place, std::span<const uint64_t> structure) const {
  auto it = known_.find(key_of(place, structure));
  if (it == known_.end()) return nullptr;
  const BackwardRecord& record = it->second;
  return record.excerpt.begin == place && std::ranges::equal(record.structure, structure) ? &record : nullptr;
}

bool BackwardRecords::is_wanted(const lazy::Trace::Place& place, std::span<const uint64_t> structure) {
  const uint64_t key = key_of(place, structure);
  return std::exchange(asked_[key % asked_.size()], key) == key;
}

void BackwardRecords::keep(BackwardRecord record) {
  if (entries_ + record.excerpt.entries.size() > kMostEntries) {
    known_.clear();
    entries_ = 0;
  }
  const uint64_t key = key_of(record.excerpt.begin, record.structure);
  entries_ += record.excerpt.entries.size();
  known_.insert_or_assign(key, std::move(record));
}

BackwardRecords& backward_records() {
  static auto* records = new BackwardRecords;  // outlives every thread
  return *records;
}

}  // namespace lazuli::backend
