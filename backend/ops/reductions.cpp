// Reductions: torch's many spellings of "which dimensions" and "which result type", onto the few rows.
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/logsumexp_native.h>
#include "backend/ops/norm.h"
#include "backend/record/complex_numbers.h"
#include "backend/record/dispatch.h"
#include "backend/record/operands.h"
#include "backend/record/registration.h"
#include "lazy/memory/backing.h"
#include "lazy/record/tape.h"

namespace lazuli::backend {
namespace {

using at::IntArrayRef;
using at::OptionalIntArrayRef;
using at::Scalar;
using at::ScalarType;
using at::Tensor;
using std::optional;

// Torch counts dimensions that it is told in a word.
void check_rank(int64_t rank) { TORCH_CHECK(rank <= 64, "only tensors with up to 64 dims are supported"); }

// Sorted dimensions without repeats; all of them for an empty or absent list.
ir::Dims dims_of(OptionalIntArrayRef dims, int64_t rank) {
  ir::Dims out;
  if (!dims || dims->empty()) {
    for (int64_t d = 0; d < rank; ++d) out.push_back(d);
    return out;
  }
  check_rank(rank);
  for (int64_t d : *dims) out.push_back(at::maybe_wrap_dim(d, rank));
  if (rank == 0) return {};
  std::sort(out.begin(), out.end());
  for (size_t i = 1; i < out.size(); ++i)
    TORCH_CHECK(out[i] != out[i - 1], "dim ", out[i], " appears multiple times in the list of dims");
  return out;
}

struct Reduction {
  ir::Op op;
  ir::Dims dims;
  bool keepdim;
  ScalarType compute;  // operands are converted to this first
  ScalarType result;   // and the result to this
};

ir::Value reduce(lazy::Recording& r, const Tensor& x, const Reduction& d) {
  ir::Value v = r.convert(r.value(x), lazy::to_ir(d.compute));
  ir::Attrs attrs;
  attrs.add(d.dims).add(d.keepdim);
  if (x.dim() == 0) v = r.reshape(v, ir::Dims{1}), attrs = {{0}, {0}};
  return r.convert(r.emit(d.op, {v}, attrs), lazy::to_ir(d.result));
}

Tensor reduce(const Tensor& x, const Reduction& d) {
  lazy::Recording r;
  return r.tensor(reduce(r, x, d), d.result);
}
Tensor& reduce_out(const Tensor& x, const Reduction& d, Tensor& out) {
  ir::Dims shape;
  for (int64_t i = 0; i < x.dim(); ++i) {
    bool folded = std::ranges::find(d.dims, ir::Size(i)) != d.dims.end();
    if (!folded) shape.push_back(x.size(i));
    if (folded && d.keepdim) shape.push_back(1);
  }
  at::native::resize_output(out, lazy::to_ref(shape));
  lazy::Recording r;
  r.write(out, r.convert(reduce(r, x, d), lazy::to_ir(out.scalar_type())));
  return out;
}

// sum and prod widen integers; mean and variance need floating types.
ScalarType sum_type(const Tensor& x, optional<ScalarType> asked) {
  if (asked) return *asked;
  return c10::isIntegralType(x.scalar_type(), true) ? at::kLong : x.scalar_type();
}
bool native(ScalarType t) { return ir::is_native(lazy::to_ir(t)); }

Tensor sum_dims(const Tensor& x, OptionalIntArrayRef dims, bool keepdim, optional<ScalarType> type) {
  ScalarType t = sum_type(x, type);
  if (!is_ours(x) || !native(t)) return fall_back<Tensor>("aten::sum", "dim_IntList", x, dims, keepdim, type);
  return reduce(x, {ir::Op::sum, dims_of(dims, x.dim()), keepdim, t, t});
}
Tensor& sum_out(const Tensor& x, OptionalIntArrayRef dims, bool keepdim, optional<ScalarType> type, Tensor& out) {
  ScalarType t = sum_type(x, type);
  if (!is_ours(x) || !is_ours(out) || !is_writable(out, {&x}) || out.scalar_type() != t)
    return fall_back<Tensor>("aten::sum", "IntList_out", x, dims, keepdim, type, out), out;
  return reduce_out(x, {ir::Op::sum, dims_of(dims, x.dim()), keepdim, t, t}, out);
}
Tensor sum_all(const Tensor& x, optional<ScalarType> type) { return sum_dims(x, std::nullopt, false, type); }

Tensor prod_all(const Tensor& x, optional<ScalarType> type) {
  ScalarType t = sum_type(x, type);
  if (!is_ours(x) || !native(t)) return fall_back<Tensor>("aten::prod", "", x, type);
  return reduce(x, {ir::Op::prod, dims_of(std::nullopt, x.dim()), false, t, t});
}
Tensor prod_dim(const Tensor& x, int64_t dim, bool keepdim, optional<ScalarType> type) {
  ScalarType t = sum_type(x, type);
  if (!is_ours(x) || !native(t)) return fall_back<Tensor>("aten::prod", "dim_int", x, dim, keepdim, type);
  return reduce(x, {ir::Op::prod, dims_of(IntArrayRef(dim), x.dim()), keepdim, t, t});
}

Tensor mean_dims(const Tensor& x, OptionalIntArrayRef dims, bool keepdim, optional<ScalarType> type) {
  ScalarType t = type.value_or(x.scalar_type());
  if (!is_ours(x) || !c10::isFloatingType(t) || !native(t))
    return fall_back<Tensor>("aten::mean", "dim", x, dims, keepdim, type);
  return reduce(x, {ir::Op::mean, dims_of(dims, x.dim()), keepdim, t, t});
}
Tensor& mean_out(const Tensor& x, OptionalIntArrayRef dims, bool keepdim, optional<ScalarType> type, Tensor& out) {
  ScalarType t = type.value_or(x.scalar_type());
  if (!is_ours(x) || !is_ours(out) || !is_writable(out, {&x}) || !c10::isFloatingType(t) || out.scalar_type() != t)
    return fall_back<Tensor>("aten::mean", "out", x, dims, keepdim, type, out), out;
  return reduce_out(x, {ir::Op::mean, dims_of(dims, x.dim()), keepdim, t, t}, out);
}
Tensor mean_all(const Tensor& x, optional<ScalarType> type) {
  ScalarType t = type.value_or(x.scalar_type());
  if (has_parts(x) && !type) return mean_dims(x, std::nullopt, false, type);
  if (!is_ours(x) || !c10::isFloatingType(t) || !native(t)) return fall_back<Tensor>("aten::mean", "", x, type);
  return mean_dims(x, std::nullopt, false, type);
}

bool empty_extremum(const Tensor& x, const ir::Dims& dims) {
  for (int64_t d : dims)
    if (x.dim() && x.size(d) == 0) return true;
  return false;
}

template <ir::Op op>
struct Extremum {
  static constexpr const char* name = op == ir::Op::amax ? "aten::amax" : "aten::amin";
  static constexpr const char* all_name = op == ir::Op::amax ? "aten::max" : "aten::min";
  static Tensor dims(const Tensor& x, IntArrayRef dims, bool keepdim) {
    if (!is_ours(x) || empty_extremum(x, dims_of(dims, x.dim()))) return fall_back<Tensor>(name, "", x, dims, keepdim);
    return reduce(x, {op, dims_of(dims, x.dim()), keepdim, x.scalar_type(), x.scalar_type()});
  }
  static Tensor all(const Tensor& x) {
    if (!is_ours(x) || x.numel() == 0) return fall_back<Tensor>(all_name, "", x);
    return reduce(x, {op, dims_of(std::nullopt, x.dim()), false, x.scalar_type(), x.scalar_type()});
  }
};

template <ir::Op op>
struct ArgExtremum {
  static constexpr bool largest = op == ir::Op::argmax;
  static constexpr const char* name = largest ? "aten::argmax" : "aten::argmin";
  static constexpr const char* pair_name = largest ? "aten::max" : "aten::min";
  static Tensor index(const Tensor& x, optional<int64_t> dim, bool keepdim) {
    if (!is_ours(x) || x.numel() == 0 || x.scalar_type() == at::kBool)
      return fall_back<Tensor>(name, "", x, dim, keepdim);
    if (dim) return reduce(x, {op, dims_of(IntArrayRef(*dim), x.dim()), keepdim, x.scalar_type(), at::kLong});
    return reduce(x, {op, dims_of(std::nullopt, x.dim()), keepdim, x.scalar_type(), at::kLong});
  }
  // max and min along one dimension: the values and where they were.
  static std::tuple<Tensor, Tensor> pair(const Tensor& x, int64_t dim, bool keepdim) {
    if (!is_ours(x) || x.numel() == 0 || x.scalar_type() == at::kBool) {
      return fall_back_tuple<2>(pair_name, "dim", x, dim, keepdim);
    }
    ir::Dims dims = dims_of(IntArrayRef(dim), x.dim());
    return {reduce(x, {largest ? ir::Op::amax : ir::Op::amin, dims, keepdim, x.scalar_type(), x.scalar_type()}),
            reduce(x, {op, dims, keepdim, x.scalar_type(), at::kLong})};
  }
};

template <ir::Op op>
struct Truth {
  static constexpr const char* name = op == ir::Op::any ? "aten::any" : "aten::all";
  static ScalarType type(const Tensor& x) { return x.scalar_type() == at::kByte ? at::kByte : at::kBool; }
  static Tensor all(const Tensor& x) {
    if (!is_ours(x)) return fall_back<Tensor>(name, "", x);
    check_rank(x.dim());
    return reduce(x, {op, dims_of(std::nullopt, x.dim()), false, x.scalar_type(), type(x)});
  }
  static Tensor dim(const Tensor& x, int64_t dim, bool keepdim) {
    if (!is_ours(x)) return fall_back<Tensor>(name, "dim", x, dim, keepdim);
    return reduce(x, {op, dims_of(IntArrayRef(dim), x.dim()), keepdim, x.scalar_type(), type(x)});
  }
};

// In this type: what is in 16 bits may have a root there, and none of its square.
ir::Value variance(lazy::Recording& r, const Tensor& x, const ir::Dims& dims, double correction, bool keepdim,
                   ir::DType type) {
  ir::Value v = r.convert(r.value(x), type);
  ir::Attrs attrs;
  attrs.add(dims).add(keepdim);
  if (x.dim() == 0) v = r.reshape(v, ir::Dims{1}), attrs = {{0}, {0}};
  // Of nothing it is nan, however much is added to its count.
  if (x.numel() == 0) correction = std::max(correction, 0.0);
  return r.emit(ir::Op::var, {v, r.number(correction, type)}, attrs);
}
bool variance_covered(const Tensor& x) { return is_ours(x) && c10::isFloatingType(x.scalar_type()); }

Tensor variance_of(const Tensor& x, OptionalIntArrayRef dims, const optional<Scalar>& correction, bool keepdim) {
  if (!variance_covered(x)) return fall_back<Tensor>("aten::var", "correction", x, dims, correction, keepdim);
  lazy::Recording r;
  const ir::DType t = lazy::to_ir(x.scalar_type());
  return r.tensor(variance(r, x, dims_of(dims, x.dim()), correction.value_or(1).toDouble(), keepdim, t),
                  x.scalar_type());
}
Tensor std_(const Tensor& x, OptionalIntArrayRef dims, const optional<Scalar>& correction, bool keepdim) {
  if (!variance_covered(x)) return fall_back<Tensor>("aten::std", "correction", x, dims, correction, keepdim);
  lazy::Recording r;
  const ir::DType t = lazy::to_ir(x.scalar_type());
  // Deviations that float32 holds may have squares that it does not: the host's kernels add those up in double.
  const bool in_double = lazy::backing().has_host_kernels && t != ir::DType::F16;
  const ir::DType wide = in_double ? ir::DType::F64 : ir::compute_type(t);
  ir::Value v = variance(r, x, dims_of(dims, x.dim()), correction.value_or(1).toDouble(), keepdim, wide);
  return r.tensor(r.convert(r.emit(ir::Op::sqrt, {v}), t), x.scalar_type());
}
Tensor vector_norm(const Tensor& x, const Scalar& order, OptionalIntArrayRef dims, bool keepdim,
                   optional<ScalarType> type) {
  // The derivative looks for the elements whose size is the norm: it must be the size that `abs` finds, to the bit.
  if (x.is_complex() && x.layout() == c10::kStrided && !order.isComplex() && std::isinf(order.toDouble()) &&
      (!type || *type == x.scalar_type()))
    return at::linalg_vector_norm(at::abs(x), order, dims, keepdim);
  if (!sums_a_norm(x, order, type))
    return fall_back<Tensor>("aten::linalg_vector_norm", "", x, order, dims, keepdim, type);
  lazy::Recording r;
  return r.tensor(record_norm(r, x, order.toDouble(), dims_of(dims, x.dim()), keepdim), x.scalar_type());
}

std::tuple<Tensor, Tensor> var_mean(const Tensor& x, OptionalIntArrayRef dims, const optional<Scalar>& correction,
                                    bool keepdim) {
  if (!variance_covered(x)) {
    return fall_back_tuple<2>("aten::var_mean", "correction", x, dims, correction, keepdim);
  }
  return {var(x, dims, correction, keepdim), mean_dims(x, dims, keepdim, std::nullopt)};
}

// In 16 bits eager rounds each step of it; and of no elements there is no largest. The largest, which nothing flows
// through, only keeps exp in range; where it is infinite it would leave nan.
Tensor logsumexp(const Tensor& x, IntArrayRef dims, bool keepdim) {
  const bool fits = is_ours(x) && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble);
  if (!fits || dims.empty() || x.numel() == 0) {
    if (lazy::Tape::current()) throw NotTaped{};
    return at::native::logsumexp(x, dims, keepdim);
  }
  ir::Dims along = dims_of(dims, x.dim());
  if (x.dim() == 0) along = {0}, keepdim = false;
  lazy::Recording r;
  const ir::DType type = lazy::to_ir(x.scalar_type());
  ir::Value v = r.value(x);
  if (x.dim() == 0) v = r.reshape(v, ir::Dims{1});
  ir::Value largest = r.emit(ir::Op::detach, {r.emit(ir::Op::amax, {v}, ir::Attrs().add(along).add(1))});
  const ir::Value infinite =
      r.emit(ir::Op::eq, {r.emit(ir::Op::abs, {largest}), r.constant(std::numeric_limits<double>::infinity(), type)});
  largest = r.emit(ir::Op::where, {infinite, r.constant(0, type), largest});
  const ir::Value total = r.sum(r.emit(ir::Op::exp, {r.sub(v, largest)}), along, keepdim);
  return r.tensor(r.add(r.emit(ir::Op::log, {total}), r.reshape(largest, ir::Dims(r.shape(total)))), x.scalar_type());
}

// What is not a number counts for nothing.
Tensor nansum(const Tensor& x, OptionalIntArrayRef dims, bool keepdim, optional<ScalarType> dtype) {
  if (!is_ours(x) || !c10::isFloatingType(x.scalar_type()))
    return fall_back<Tensor>("aten::nansum", "", x, dims, keepdim, dtype);
  return at::where(at::isnan(x), 0, x).sum(dims, keepdim, dtype);
}
Tensor count_nonzero(const Tensor& x, IntArrayRef dims) {
  return is_ours(x) ? at::ne(x, 0).sum(dims) : fall_back<Tensor>("aten::count_nonzero", "dim_IntList", x, dims);
}

}  // namespace

bool sums_a_norm(const Tensor& x, const Scalar& order, optional<ScalarType> type) {
  const double p = order.isComplex() ? 0 : order.toDouble();
  return is_ours(x) && c10::isFloatingType(x.scalar_type()) && (!type || *type == x.scalar_type()) &&
         (p == 1 || p == 2);
}

ir::Value record_norm(lazy::Recording& r, const Tensor& x, double order, const ir::Dims& dims, bool keepdim) {
  // Narrow types are widened for the whole of it: their squares would overflow. A single element has no square, which
  // would overflow or vanish.
  ir::Value v = r.convert(r.value(x), ir::compute_type(lazy::to_ir(x.scalar_type())));
  const bool squares = order == 2 && std::ranges::any_of(dims, [&](int64_t d) { return x.dim() && x.size(d) != 1; });
  if (x.dim() == 0) v = r.reshape(v, ir::Dims{1});
  v = squares ? r.mul(v, v) : r.emit(ir::Op::abs, {v});
  v = x.dim() ? r.sum(v, dims, keepdim) : r.reshape(v, ir::Dims{});
  if (squares) v = r.emit(ir::Op::sqrt, {v});
  return r.convert(v, lazy::to_ir(x.scalar_type()));
}

void register_reductions(torch::Library& m) {
  m.impl("sum", sum_all);
  m.impl("sum.dim_IntList", sum_dims);
  m.impl("sum.IntList_out", sum_out);
  m.impl("prod", prod_all);
  m.impl("prod.dim_int", prod_dim);
  m.impl("logsumexp", logsumexp);
  m.impl("nansum", nansum);
  m.impl("count_nonzero.dim_IntList", count_nonzero);
  m.impl("mean", mean_all);
  m.impl("mean.dim", mean_dims);
  m.impl("mean.out", mean_out);
  m.impl("amax", Extremum<ir::Op::amax>::dims);
  m.impl("amin", Extremum<ir::Op::amin>::dims);
  m.impl("max", Extremum<ir::Op::amax>::all);
  m.impl("min", Extremum<ir::Op::amin>::all);
  m.impl("argmax", ArgExtremum<ir::Op::argmax>::index);
  m.impl("argmin", ArgExtremum<ir::Op::argmin>::index);
  m.impl("max.dim", ArgExtremum<ir::Op::argmax>::pair);
  m.impl("min.dim", ArgExtremum<ir::Op::argmin>::pair);
  m.impl("any", Truth<ir::Op::any>::all);
  m.impl("all", Truth<ir::Op::all>::all);
  m.impl("any.dim", Truth<ir::Op::any>::dim);
  m.impl("all.dim", Truth<ir::Op::all>::dim);
  m.impl("linalg_vector_norm", vector_norm);
  m.impl("var.correction", variance_of);
  m.impl("std.correction", std_);
  m.impl("var_mean.correction", var_mean);
}

}  // namespace lazuli::backend
