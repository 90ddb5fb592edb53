// The code of traces up to some place, kept to be compared with that of later ones: what was made for one beginning and
// is reused under another would be wrong, however well their hashes agree.
#pragma once
#include <memory>
#include <vector>
#include "lazy/trace/trace.h"

namespace lazuli::lazy {

class Beginning {
 public:
  // Takes in what the trace has recorded before `end`; what is here already is the same trace's. Returns by how many
  // entries this grew.
  size_t extend(const Trace& trace, const Trace::Place& end);
  // Whether the trace has recorded the same between two places; false if this does not reach so far.
  bool matches(const Trace& trace, const Trace::Place& begin, const Trace::Place& end) const;

 private:
  std::vector<Entry> entries_;
  std::vector<ValueId> operands_;
  std::vector<int64_t> attrs_;
};

// For asking the same again and again as a trace grows: nothing is compared twice.
class BeginningComparison {
 public:
  bool matches(const std::shared_ptr<const Beginning>& known, const Trace& trace, const Trace::Place& end);
  void forget() { *this = {}; }

 private:
  std::shared_ptr<const Beginning> known_;  // that the trace `epoch_` goes along with up to a place
  uint64_t epoch_ = 0;
  Trace::Place place_{};
};

}  // namespace lazuli::lazy
