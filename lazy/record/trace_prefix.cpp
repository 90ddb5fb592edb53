#include "lazy/record/trace_prefix.h"

#include <algorithm>

namespace lazuli::lazy {
namespace {

template <class T>
void take(std::vector<T>& own, const std::vector<T>& from, size_t end) {
  if (own.size() < end)
    own.insert(own.end(), from.begin() + static_cast<ptrdiff_t>(own.size()),
               from.begin() + static_cast<ptrdiff_t>(end));
}

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b, size_t begin, size_t end) {
  if (std::min(a.size(), b.size()) < end) return false;
  return begin >= end || std::equal(a.begin() + static_cast<ptrdiff_t>(begin), a.begin() + static_cast<ptrdiff_t>(end),
                                    b.begin() + static_cast<ptrdiff_t>(begin));
}

}  // namespace

size_t Beginning::extend(const Trace& trace, const Trace::Place& end) {
  const size_t before = entries_.size();
  take(entries_, trace.entries(), end.entries);
  take(operands_, trace.operands(), end.operands);
  take(attrs_, trace.attrs(), end.attrs);
  return entries_.size() - before;
}

bool Beginning::matches(const Trace& trace, const Trace::Place& begin, const Trace::Place& end) const {
  return same(entries_, trace.entries(), begin.entries, end.entries) &&
         same(operands_, trace.operands(), begin.operands, end.operands) &&
         same(attrs_, trace.attrs(), begin.attrs, end.attrs);
}

bool BeginningComparison::matches(const std::shared_ptr<const Beginning>& known, const Trace& trace,
                                  const Trace::Place& end) {
  const bool goes_on = known == known_ && trace.epoch() == epoch_;
  if (!known->matches(trace, goes_on ? place_ : Trace::Place{}, end)) return false;
  known_ = known, epoch_ = trace.epoch(), place_ = end;
  return true;
}

}  // namespace lazuli::lazy
