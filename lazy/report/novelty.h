// Why a trace is new: the first entry that differs from an earlier trace that begins like it, with both Python lines.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include "lazy/trace/trace.h"

namespace lazuli::lazy {

struct Novelty {
  enum class Kind : uint8_t {
    First,      // there is no earlier trace
    Shape,      // an input has another shape or type
    Number,     // an attribute of an op is another number
    Length,     // the line records another number of ops: a loop or a list
    Operation,  // other ops
    Results,    // the same ops, but others of their results are still needed
  } kind = Kind::First;
  std::string what;         // the op, and the attribute: the same for each size
  std::string now, before;  // what stands in the two traces
  uint32_t line = 0, line_before = 0;
  uint64_t key_before = 0;  // of the earlier trace
  size_t entry = 0;
};
const char* name(Novelty::Kind kind);

// The traces that were new lately. Under the recorder's lock.
class NewTraces {
 public:
  static NewTraces& get();
  // Compares a trace that is new, and keeps its code to compare later ones with.
  Novelty look(const Trace& trace, uint64_t key);

 private:
  static constexpr size_t kKept = 8;
  struct Known {
    Trace code;
    uint64_t key;
  };
  const Known* begins_at_the_same_line(const Trace& trace) const;
  std::deque<Known> known_;
};

}  // namespace lazuli::lazy
