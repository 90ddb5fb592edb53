#include "lowering/nest/schedules/dimensions.h"
#include <algorithm>
#include <cstdlib>

namespace lazuli::lowering {
namespace {

// Widest steps outermost, as the leading form walks; then those of the next form where the leading one stands still.
void order(std::vector<uint32_t>& dims, const std::vector<const Form*>& walks) {
  std::stable_sort(dims.begin(), dims.end(), [&](uint32_t a, uint32_t b) {
    for (const Form* f : walks) {
      const ir::Size x = abs(f->coefs[a]), y = abs(f->coefs[b]);
      if (x != 0 && y != 0) return x > y;
    }
    return false;
  });
}

bool collapses(uint32_t outer, uint32_t inner, ir::Size inner_size, const std::vector<const Form*>& walks) {
  return std::all_of(walks.begin(), walks.end(),
                     [&](const Form* f) { return always_equal(f->coefs[outer], f->coefs[inner] * inner_size); });
}

// Appends `dims`, outermost first, collapsing where possible.
void append(Dimensions& out, const Space& space, const std::vector<uint32_t>& dims,
            const std::vector<const Form*>& walks) {
  const uint32_t begin = out.rank();
  for (uint32_t d : dims) {
    if (space.sizes[d].is_surely_one()) continue;
    if (out.rank() > begin && collapses(out.from.back(), d, space.sizes[d], walks)) {
      out.sizes.back() *= space.sizes[d];
      out.from.back() = d;
    } else {
      out.sizes.push_back(space.sizes[d]);
      out.from.push_back(d);
    }
  }
  if (out.rank() == begin && !dims.empty()) {
    out.sizes.push_back(space.sizes[dims.back()]);
    out.from.push_back(dims.back());
  }
}

// Lanes want memory that is contiguous along them, or the same for all.
int contiguous_walks(const Dimensions& dims, uint32_t d, const std::vector<const Form*>& walks) {
  int n = 0;
  for (const Form* f : walks) n += abs(dims.coef(*f, d)) <= 1;
  return n;
}

// A row of a few elements leaves most lanes without work, and what follows the reduction is done for one row at a time:
// many such rows are better side by side, though their elements lie apart.
bool has_many_short_rows(const Dimensions& dims, bool has_work_by_row) {
  constexpr int64_t kMany = 16;
  const int64_t most = has_work_by_row ? 16 : 8;
  ir::Size length = 1;
  for (uint32_t d = dims.kept; d < dims.rank(); ++d) length *= dims.sizes[d];
  return dims.kept > 0 && length <= most && dims.sizes[dims.kept - 1] >= kMany;
}

}  // namespace

Dimensions choose_dimensions(const Space& space, const std::vector<const Form*>& walks, bool keep_reduced_order,
                             bool has_work_by_row) {
  std::vector<uint32_t> kept, reduced;
  for (uint32_t d = 0; d < space.rank(); ++d) (d < space.kept ? kept : reduced).push_back(d);
  order(kept, walks);
  if (!keep_reduced_order) order(reduced, walks);
  Dimensions out;
  append(out, space, kept, walks);
  out.kept = out.rank();
  append(out, space, reduced, walks);
  if (out.rank() > out.kept &&
      contiguous_walks(out, out.rank() - 1, walks) >= contiguous_walks(out, out.kept - 1, walks) &&
      !has_many_short_rows(out, has_work_by_row))
    out.schedule = Schedule::Row;
  return out;
}

}  // namespace lazuli::lowering
