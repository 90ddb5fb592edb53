// Which loops a group runs in: dimensions ordered so that memory is walked along its rows, neighbours that every access
// walks alike collapsed into one, and the schedule (loop_nest.h) that vectorizes the contiguous one.
// Nothing here enters a kernel but the rank and the stride classes, so equal patterns of any size share one kernel.
#pragma once
#include <vector>
#include "lowering/index/terms.h"
#include "lowering/nest/loop_nest.h"

namespace lazuli::lowering {

struct Dimensions {
  Schedule schedule = Schedule::Column;
  ir::Dims sizes;
  uint32_t kept = 0;
  std::vector<uint32_t> from;  // the dimension of the group's space whose coefficient each one takes

  uint32_t rank() const { return sizes.size(); }
  ir::Size coef(const Form& f, uint32_t d) const { return f.coefs[from[d]]; }
};

// `walks`: the forms of all accesses and positions that move along elements, the most important first.
// `has_work_by_row`: what is done once for a row takes as long as several of its elements.
Dimensions choose_dimensions(const Space& space, const std::vector<const Form*>& walks, bool keep_reduced_order,
                             bool has_work_by_row);

}  // namespace lazuli::lowering
