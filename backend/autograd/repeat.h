// What backward recorded, kept to be recorded again without taking derivatives: a training step records the same trace
// in every iteration, and then so does its backward. What the steps of a region (region.h) record follows from the
// trace before them and from how they hang together; where both are as before, it is copied.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>
#include "lazy/record/trace_prefix.h"
#include "lazy/trace/trace.h"

namespace lazuli::backend {

// Of one scope of recording.
struct BackwardRecord {
  std::vector<uint64_t> structure;  // of the steps, as their region describes it
  lazy::Trace::Excerpt excerpt;
  std::vector<std::pair<uint32_t, lazy::ValueId>> open;      // by slot: gradients that later steps take
  std::vector<std::pair<uint32_t, lazy::ValueId>> outgoing;  // by edge; kAbsent: nothing flows there
  std::vector<bool> ran;                                     // by step
  friend bool operator==(const BackwardRecord&, const BackwardRecord&) = default;
};

// What the record of a scope is found by: the trace before it, and the structure of its steps.
class BackwardKey {
 public:
  BackwardKey(const lazy::Trace& trace, std::span<const uint64_t> structure);
  const lazy::Trace& trace;
  const lazy::Trace::Place begin;  // how far it had come
  const std::span<const uint64_t> structure;
  const uint64_t hash;
};

// For who holds the recorder's lock.
class BackwardRecords {
 public:
  // Null: nothing is known.
  const BackwardRecord* find(const BackwardKey& key);
  // Whether it was asked for before without being known: what comes once only is not worth keeping.
  bool is_wanted(const BackwardKey& key);
  void keep(const BackwardKey& key, BackwardRecord record);
  std::vector<uint64_t> scratch;  // for a structure that is being described

 private:
  struct Known {
    BackwardRecord record;
    std::shared_ptr<const lazy::Beginning> before;  // what its trace had recorded, and maybe more
  };
  static constexpr size_t kMostEntries = 1 << 16;  // of traces, some 100 bytes each; then all are forgotten
  void forget();

  std::unordered_map<uint64_t, Known> known_;
  size_t entries_ = 0;
  std::shared_ptr<lazy::Beginning> beginning_;  // of the trace from which records were kept last
  uint64_t epoch_ = 0;                          // that trace's
  lazy::BeginningComparison comparison_;
  std::vector<uint64_t> asked_ = std::vector<uint64_t>(512);  // hashes of the latest
};
BackwardRecords& backward_records();

}  // namespace lazuli::backend
