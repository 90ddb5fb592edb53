// Positions as linear functions of a kernel's iteration indices. Every value is dense and row-major, so one linear
// form, the element's row-major number, says where a value is read; a view turns a form of its result into a form of
// its operand. What a load needs is then exactly a form: strides along the iteration dimensions and an offset.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>
#include "ir/graph.h"

namespace lazuli::lowering {

// The iteration space of one kernel: kept dimensions, then reduced ones. Refined by splitting dimensions until every
// view inside it is linear, and collapsed again when the loops are made.
struct Space {
  ir::Dims sizes;
  uint32_t kept = 0;

  uint32_t rank() const { return sizes.size(); }
  uint32_t reduced() const { return rank() - kept; }
  ir::Size kept_numel() const { return ir::product({sizes.data(), kept}); }
  ir::Size reduced_numel() const { return ir::product({sizes.data() + kept, reduced()}); }
};

inline constexpr uint32_t kNoTerm = UINT32_MAX;

struct Form {
  ir::Dims coefs;  // one per iteration dimension
  ir::Size offset = 0;
  uint32_t index = kNoTerm;  // a term (terms.h) whose run-time value, times index_coef, is added
  ir::Size index_coef = 0;
  ir::Size index_size = 0;  // the index is below this
  ir::Value index_by{};     // or else this application fails
  friend bool operator==(const Form&, const Form&) = default;
};

// Dimension `dim` must become (size / inner, inner) before a form fits.
struct Split {
  uint32_t dim;
  ir::Size inner;
};
enum class Fit : uint8_t { Yes, NeedsSplit, No };

// `at` is a row-major number in a value of `shape`; `out` becomes the same element's number in the value that `window`
// looks at. Fails where a dimension's index is no linear function of the iteration (a reshape that cuts across).
Fit through_window(const Form& at, const Space& space, ir::SizeSpan shape, const ir::StridedWindow& window, Form& out,
                   Split& split);

// The same where no dimension can be split; nothing where one would have to be.
std::optional<Form> through_unsplit(const Form& at, const Space& space, ir::SizeSpan shape,
                                    const ir::StridedWindow& window);

// How an operand of shape `from` is read by a result of the broadcast shape `to`.
ir::StridedWindow broadcast_window(ir::SizeSpan from, ir::SizeSpan to);

// The row-major number over the kept (or the reduced) dimensions.
Form kept_form(const Space& space);
Form reduced_form(const Space& space);

}  // namespace lazuli::lowering
