#include "backend/autograd/repeat.h"

#include <algorithm>

namespace lazuli::backend {
namespace {

uint64_t hash_of(const lazy::Trace::Place& begin, std::span<const uint64_t> structure) {
  uint64_t hash = begin.hash;
  for (uint64_t word : structure) hash = lazy::mix(hash, word);
  return lazy::for_lookup(hash);
}

}  // namespace

BackwardKey::BackwardKey(const lazy::Trace& trace, std::span<const uint64_t> structure)
    : trace(trace), begin(trace.place()), structure(structure), hash(hash_of(begin, structure)) {}

const BackwardRecord* BackwardRecords::find(const BackwardKey& key) {
  auto it = known_.find(key.hash);
  if (it == known_.end()) return nullptr;
  const auto& [record, before] = it->second;
  const bool same = record.excerpt.begin == key.begin && std::ranges::equal(record.structure, key.structure) &&
                    comparison_.matches(before, key.trace, key.begin);
  return same ? &record : nullptr;
}

bool BackwardRecords::is_wanted(const BackwardKey& key) {
  return std::exchange(asked_[key.hash % asked_.size()], key.hash) == key.hash;
}

void BackwardRecords::keep(const BackwardKey& key, BackwardRecord record) {
  if (entries_ + record.excerpt.entries.size() > kMostEntries) forget();
  if (!beginning_ || epoch_ != key.trace.epoch()) {
    beginning_ = std::make_shared<lazy::Beginning>();
    epoch_ = key.trace.epoch();
  }
  entries_ += beginning_->extend(key.trace, key.begin);
  Known& known = known_[key.hash];  // another's, if their hashes are the same
  entries_ += record.excerpt.entries.size() - known.record.excerpt.entries.size();
  known = {std::move(record), beginning_};
}

void BackwardRecords::forget() {
  known_.clear();
  entries_ = 0;
  beginning_.reset();
  comparison_.forget();
}

BackwardRecords& backward_records() {
  static auto* records = new BackwardRecords;  // outlives every thread
  return *records;
}

}  // namespace lazuli::backend
