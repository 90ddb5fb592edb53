#include "ir/graph.h"
#include "ir/error.h"

namespace lazuli::ir {

SizeSpan Attrs::list(size_t i) const {
  size_t at = 0;
  for (; i > 0 && at < flat_.size(); --i) at += static_cast<size_t>(flat_[at]) + 1;
  LAZULI_CHECK(at < flat_.size(), "an attribute is missing");
  return {flat_.data() + at + 1, static_cast<size_t>(flat_[at])};
}

}  // namespace lazuli::ir
