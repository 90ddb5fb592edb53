#include "lowering/index/linear_form.h"
#include <cstdlib>

namespace lazuli::lowering {
namespace {

// Sizes that are equal by chance count as equal only where nothing fits otherwise, as a plan then depends on it.
bool equal(ir::Size a, ir::Size b, bool by_chance) { return by_chance ? a == b : always_equal(a, b); }

// Row-major digits of a number: which dimension of `shape` each part of a form belongs to.
class Digits {
 public:
  Digits(ir::SizeSpan shape, bool by_chance)
      : shape_(shape), weights_(ir::contiguous_strides(shape)), by_chance_(by_chance) {
    filled_.resize(shape.size());
  }
  // The outermost dimension that a multiple of `weight` can count; -1 when the weight is no multiple of any.
  int owner(ir::Size weight) const {
    for (size_t d = 0; d < shape_.size(); ++d)
      if (!shape_[d].is_surely_one() && (weights_[d] < weight || equal(weights_[d], weight, by_chance_)))
        return weight % weights_[d] == 0 ? static_cast<int>(d) : -1;
    return -1;
  }
  ir::Size weight(int d) const { return weights_[d]; }
  ir::Size size(int d) const { return shape_[d]; }
  // Records that dimension d takes up to `amount` more; false when it would carry into the next one.
  bool fill(int d, ir::Size amount) { return (filled_[d] += amount) < shape_[d]; }

 private:
  ir::SizeSpan shape_;
  ir::Dims weights_, filled_;
  const bool by_chance_;
};

// A window with neighbouring dimensions that it walks alike made one, so that reshapes within them cost nothing.
struct Collapsed {
  ir::Dims shape, strides;
  Collapsed(ir::SizeSpan from, ir::SizeSpan steps, bool by_chance) {
    for (size_t d = 0; d < from.size(); ++d) {
      if (from[d].is_surely_one()) continue;
      if (!shape.empty() && equal(strides.back(), steps[d] * from[d], by_chance)) {
        shape.back() *= from[d];
        strides.back() = steps[d];
      } else {
        shape.push_back(from[d]);
        strides.push_back(steps[d]);
      }
    }
  }
};

bool is_dense(ir::SizeSpan shape, ir::SizeSpan strides, bool by_chance) {
  ir::Size expected = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (!shape[d].is_surely_one() && !equal(strides[d], expected, by_chance)) return false;
    expected *= shape[d];
  }
  return true;
}

// Whether a walk goes through the whole dimension some number of times, which is one by chance at most. Of a dimension
// that could be nothing the remainder says nothing: then two that are equal by chance would each go through the other.
bool goes_through_several(ir::Size step, ir::Size size, ir::Size dimension) {
  return size.is_symbolic() && step.is_surely_one() && dimension.hint() > 1 &&
         always_equal(size / dimension * dimension, size) && !always_equal(size, dimension);
}

Fit fit(const Form& at, const Space& space, ir::SizeSpan whole, const ir::StridedWindow& window, Form& out,
        Split& split, bool by_chance) {
  out = at;
  if (is_dense(whole, window.strides, by_chance)) {
    out.offset += window.offset;
    return Fit::Yes;
  }
  if (ir::product(whole) == 0) {  // no element to be anywhere
    out.coefs = ir::Dims(space.rank(), 0);
    out.offset = window.offset;
    return Fit::Yes;
  }
  const Collapsed collapsed(whole, window.strides, by_chance);
  const ir::SizeSpan shape = collapsed.shape;
  Digits digits(shape, by_chance);
  // Terms that count backwards are taken from their smallest value upwards, so that every digit is positive.
  ir::Size lowest = at.offset;
  for (uint32_t j = 0; j < space.rank(); ++j)
    if (at.coefs[j] < 0) lowest += at.coefs[j] * (space.sizes[j] - 1);
  if (lowest < 0) return Fit::No;

  out.offset = window.offset;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d].is_surely_one()) continue;
    const ir::Size digit = lowest / digits.weight(d) % shape[d];
    out.offset += digit * collapsed.strides[d];
    digits.fill(d, digit);
  }
  for (uint32_t j = 0; j < space.rank(); ++j) {
    const ir::Size coef = abs(at.coefs[j]), size = space.sizes[j];
    out.coefs[j] = 0;
    if (coef == 0 || size.is_surely_one()) continue;
    const int d = digits.owner(coef);
    if (d < 0) return Fit::No;
    const ir::Size step = coef / digits.weight(d);
    const bool several = d > 0 && !by_chance && goes_through_several(step, size, digits.size(d));
    if (several || step * (size - 1) >= digits.size(d)) {
      const ir::Size inner = digits.size(d) / step;
      if (digits.size(d) % step != 0 || inner <= 1 || size % inner != 0) return Fit::No;
      split = {j, inner};
      return Fit::NeedsSplit;
    }
    if (!digits.fill(d, step * (size - 1))) return Fit::No;
    const ir::Size moved = step * collapsed.strides[d];
    out.coefs[j] = at.coefs[j] < 0 ? -moved : moved;
    if (at.coefs[j] < 0) out.offset += moved * (size - 1);
  }
  if (at.index != kNoTerm) {
    const int d = digits.owner(at.index_coef);
    if (d < 0 || !digits.fill(d, at.index_coef / digits.weight(d) * (at.index_size - 1))) return Fit::No;
    out.index_coef = at.index_coef / digits.weight(d) * collapsed.strides[d];
    if (out.index_coef == 0) out.index = kNoTerm;
  }
  return Fit::Yes;
}

}  // namespace

Fit through_window(const Form& at, const Space& space, ir::SizeSpan shape, const ir::StridedWindow& window, Form& out,
                   Split& split) {
  const Fit found = fit(at, space, shape, window, out, split, false);
  return found != Fit::No ? found : fit(at, space, shape, window, out, split, true);
}

std::optional<Form> through_unsplit(const Form& at, const Space& space, ir::SizeSpan shape,
                                    const ir::StridedWindow& window) {
  Form out;
  Split unused;
  for (bool by_chance : {false, true})
    if (fit(at, space, shape, window, out, unused, by_chance) == Fit::Yes) return out;
  return {};
}

ir::StridedWindow broadcast_window(ir::SizeSpan from, ir::SizeSpan to) {
  ir::StridedWindow w;
  w.strides.resize(to.size());
  const size_t shift = to.size() - from.size();
  ir::Size stride = 1;
  for (size_t d = from.size(); d-- > 0;) {
    w.strides[d + shift] = from[d] == 1 ? ir::Size(0) : stride;
    stride *= from[d];
  }
  return w;
}

namespace {
Form dense(const Space& space, uint32_t begin, uint32_t end) {
  Form f;
  f.coefs.resize(space.rank());
  ir::Size weight = 1;
  for (uint32_t d = end; d-- > begin;) {
    f.coefs[d] = space.sizes[d].is_surely_one() ? ir::Size(0) : weight;
    weight *= space.sizes[d];
  }
  return f;
}
}  // namespace

Form kept_form(const Space& space) { return dense(space, 0, space.kept); }
Form reduced_form(const Space& space) { return dense(space, space.kept, space.rank()); }

}  // namespace lazuli::lowering
