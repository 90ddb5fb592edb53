#include "backend/record/operands.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <ATen/ExpandUtils.h>
#include <ATen/ScalarOps.h>
#include <ATen/native/Resize.h>

namespace lazuli::backend {

bool covered(const Operands& operands) {
  bool any = false;
  for (const Operand& o : operands) {
    if (!o.tensor) {
      if (o.number.isComplex()) return false;
      continue;
    }
    if (!o.tensor->defined()) return false;
    bool ours = is_ours(*o.tensor);
    any |= ours;
    if (!ours && !(is_number(*o.tensor) && ir::is_native(lazy::to_ir(o.tensor->scalar_type())))) return false;
  }
  return any;
}

bool is_alias_of_any(const at::Tensor& t, std::initializer_list<const at::Tensor*> others) {
  return std::ranges::any_of(others, [&](const at::Tensor* o) { return o->has_storage() && o->is_alias_of(t); });
}

namespace {

// The type of all tensors with dimensions where no other operand can change it; otherwise torch is asked.
std::optional<c10::ScalarType> common_type(const Operands& operands) {
  auto common = c10::ScalarType::Undefined;
  for (const Operand& o : operands) {
    if (!o.tensor || o.tensor->dim() == 0) continue;
    if (common != c10::ScalarType::Undefined && common != o.tensor->scalar_type()) return {};
    common = o.tensor->scalar_type();
  }
  const bool floating = c10::isFloatingType(common);
  if (!floating && (common == c10::ScalarType::Bool || !c10::isIntegralType(common, false))) return {};
  for (const Operand& o : operands) {
    if (o.tensor && o.tensor->dim() != 0) continue;
    const c10::ScalarType other = o.tensor ? o.tensor->scalar_type() : o.number.type();
    if (c10::isComplexType(other) || (!floating && c10::isFloatingType(other))) return {};
  }
  return common;
}

// A number beside tensors counts as torch's wrapped one does, without a tensor for it.
c10::ScalarType type_of_number(const c10::Scalar& number) {
  if (number.isComplex()) return c10::typeMetaToScalarType(c10::get_default_complex_dtype());
  if (number.isFloatingPoint()) return c10::typeMetaToScalarType(c10::get_default_dtype());
  return number.type();
}

}  // namespace

c10::ScalarType promoted_type(const Operands& operands) {
  if (const auto common = common_type(operands)) return *common;
  at::native::ResultTypeState state = {};
  for (const Operand& o : operands) {
    if (o.tensor) {
      state = at::native::update_result_type_state(*o.tensor, state);
      continue;
    }
    const c10::ScalarType type = type_of_number(o.number), before = state.wrappedResult;
    state.wrappedResult = before == at::ScalarType::Undefined ? type : c10::promoteTypes(before, type);
  }
  return at::native::result_type(state);
}

ir::Dims broadcast_shape(const Operands& operands) {
  ir::Dims shape;
  bool first = true;
  for (const Operand& o : operands) {
    if (!o.tensor || is_number(*o.tensor)) continue;
    if (first) {
      shape = lazy::to_dims(o.tensor->sizes());
    } else if (!ir::equal(shape, o.tensor->sizes())) {
      auto s = at::infer_size_dimvector(lazy::to_ref(shape), o.tensor->sizes());
      shape.assign(s.data(), s.size());
    }
    first = false;
  }
  return shape;
}

ir::Dims aligned_strides(const at::Tensor& t, const ir::Dims& shape) {
  ir::Dims out(shape.size(), 0);
  size_t pad = shape.size() - static_cast<size_t>(t.dim());
  for (int64_t d = 0; d < t.dim(); ++d) out[pad + d] = t.size(d) == 1 && shape[pad + d] != 1 ? 0 : t.stride(d);
  return out;
}

// TensorIterator asks this before it looks at strides, which in dimensions of size 1 may be any.
bool all_have_shape(const Operands& operands, at::IntArrayRef shape) {
  return std::ranges::all_of(operands, [&](const Operand& o) {
    return o.tensor ? o.tensor->sizes() == shape : o.is_attribute || shape.empty();
  });
}
bool are_contiguous(const Operands& operands, at::MemoryFormat format) {
  return std::ranges::all_of(operands, [&](const Operand& o) { return !o.tensor || o.tensor->is_contiguous(format); });
}
bool are_channels_last(const Operands& operands, const ir::Dims& shape) {
  return shape.size() == 4 && all_have_shape(operands, lazy::to_ref(shape)) &&
         are_contiguous(operands, at::MemoryFormat::ChannelsLast);
}

namespace {

// How TensorIterator walks an operand: it makes a dense copy of one that is not of the common type.
ir::Dims walk_of(const at::Tensor& t, const ir::Dims& shape, c10::ScalarType common) {
  ir::Dims strides = aligned_strides(t, shape);
  const bool is_copied = common != c10::ScalarType::Undefined && t.scalar_type() != common;
  if (!is_copied || std::ranges::none_of(t.strides(), [](int64_t s) { return s == 0; })) return strides;
  const auto dense = at::infer_dense_strides(t.sizes(), t.strides());
  const size_t pad = shape.size() - dense.size();
  for (size_t d = 0; d < dense.size(); ++d)
    if (strides[pad + d] != 0 || t.size(static_cast<int64_t>(d)) == shape[pad + d]) strides[pad + d] = dense[d];
  return strides;
}
std::vector<ir::Dims> walks_of(const Operands& operands, const ir::Dims& shape, c10::ScalarType common) {
  std::vector<ir::Dims> walks;
  for (const Operand& o : operands)
    if (o.tensor && o.tensor->is_privateuseone()) walks.push_back(walk_of(*o.tensor, shape, common));
  return walks;
}

// Whether an order only moves dimensions of size 1.
bool moves_ones(const lazy::Order& order, const ir::Dims& shape) {
  int64_t last = -1;
  for (int64_t d : order) {
    if (shape[d] == 1) continue;
    if (d < last) return false;
    last = d;
  }
  return true;
}

}  // namespace

lazy::Order result_order(const Operands& operands, const ir::Dims& shape, c10::ScalarType common) {
  // Where operands are broadcast, the strides of their dimensions of size 1 count, too.
  bool all_row_major = true, all_usual = true;
  for (const Operand& o : operands) {
    if (!o.tensor || !o.tensor->is_privateuseone()) continue;
    all_row_major &= o.tensor->is_contiguous();
    all_usual &= has_usual_strides(*o.tensor);
  }
  if (shape.size() < 2 || (all_row_major && (all_usual || all_have_shape(operands, lazy::to_ref(shape))))) return {};
  if (are_channels_last(operands, shape)) return {0, 2, 3, 1};
  lazy::Order order = order_of_walks(walks_of(operands, shape, common), shape);
  return all_row_major && moves_ones(order, shape) ? lazy::Order{} : order;
}

// The rule of torch's TensorIterator: dimensions are sorted by stride, the earlier operands deciding first, a broadcast
// dimension having no say; ties keep the given order.
lazy::Order order_of_walks(const std::vector<ir::Dims>& strides, const ir::Dims& shape) {
  // Negative: a is inner to b; positive: outer; 0: undecided.
  auto compare = [&](int64_t a, int64_t b) {
    for (const ir::Dims& s : strides) {
      if (s[a] == 0 || s[b] == 0) continue;
      if (s[a] < s[b]) return -1;
      if (s[a] > s[b]) return 1;
      if (shape[a] > shape[b]) return 1;
    }
    return 0;
  };
  // Insertion sort, innermost first, as undecided pairs make the comparison no strict order.
  lazy::Order inner_first(shape.size(), 0);
  std::iota(inner_first.begin(), inner_first.end(), 0);
  std::reverse(inner_first.begin(), inner_first.end());
  for (size_t i = 1; i < inner_first.size(); ++i) {
    size_t at = i;
    for (size_t j = i; j-- > 0;) {
      int c = compare(inner_first[j], inner_first[at]);
      if (c > 0) {
        std::swap(inner_first[j], inner_first[at]);
        at = j;
      } else if (c < 0) {
        break;
      }
    }
  }
  std::reverse(inner_first.begin(), inner_first.end());
  return std::is_sorted(inner_first.begin(), inner_first.end()) ? lazy::Order{} : inner_first;
}

namespace {

// The strides of memory without gaps in this order, where an empty dimension counts as `empty`.
ir::Dims strides_in(const lazy::Order& order, at::IntArrayRef sizes, int64_t empty = 1) {
  ir::Dims strides(sizes.size(), 0);
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    const auto d = order.empty() ? i : static_cast<size_t>(order[i]);
    strides[d] = stride;
    stride *= std::max(sizes[d], empty);
  }
  return strides;
}

// By TensorIterator's rule, whose three fast ways are for operands of one shape.
ir::Dims eager_strides(at::IntArrayRef sizes, const Operands& operands, c10::ScalarType common) {
  const ir::Dims shape = lazy::to_dims(sizes);
  const at::Tensor* first = nullptr;
  const bool have_shape = all_have_shape(operands, sizes);
  bool alike = have_shape;
  for (const Operand& o : operands) {
    if (!o.tensor) continue;
    if (!first) first = o.tensor;
    alike &= o.tensor->strides() == first->strides();
  }
  if (have_shape && are_contiguous(operands, at::MemoryFormat::Contiguous)) return strides_in({}, sizes);
  if (are_channels_last(operands, shape)) return strides_in({0, 2, 3, 1}, sizes);
  if (alike && first->is_non_overlapping_and_dense()) return lazy::to_dims(first->strides());
  const lazy::Order order = order_of_walks(walks_of(operands, shape, common), shape);
  return strides_in(order, sizes, order.empty() ? 1 : 0);
}

}  // namespace

bool has_usual_strides(const at::Tensor& t) {
  int64_t stride = 1;
  for (int64_t d = t.dim(); d-- > 0; stride *= std::max<int64_t>(t.size(d), 1))
    if (t.stride(d) != stride) return false;
  return true;
}

void take_order(const at::Tensor& out, const lazy::Order& order) {
  if (!order.empty())
    out.unsafeGetTensorImpl()->set_sizes_and_strides(out.sizes(), lazy::to_ref(strides_in(order, out.sizes())));
}

void take_strides(const at::Tensor& out, const ir::Dims& strides) {
  for (int64_t d = 0; d < out.dim(); ++d)
    if (out.numel() != 0 && out.size(d) > 1 && strides[d] != out.stride(d)) return;
  out.unsafeGetTensorImpl()->set_sizes_and_strides(out.sizes(), lazy::to_ref(strides));
}

void take_strides_like(const at::Tensor& out, const at::Tensor& x) {
  if (x.is_non_overlapping_and_dense()) take_strides(out, lazy::to_dims(x.strides()));
}

void take_strides_of_ones(const at::Tensor& out, const Operands& operands, c10::ScalarType common) {
  const auto is_usual = [](const Operand& o) { return !o.tensor || has_usual_strides(*o.tensor); };
  const bool has_ones = std::ranges::any_of(out.sizes(), [](int64_t n) { return n <= 1; });
  // Of no elements even usual strides can give others: sizes of 0 are sorted before those of 1.
  if (!has_ones || (out.numel() != 0 && std::ranges::all_of(operands, is_usual) && has_usual_strides(out))) return;
  take_strides(out, eager_strides(out.sizes(), operands, common));
}

bool holds(c10::ScalarType type, const c10::Scalar& number) {
  const double x = number.toDouble();
  const auto is_within = [x](double most) { return !std::isfinite(x) || std::abs(x) <= most; };
  switch (type) {
    case c10::kByte:
      return x >= 0 && x <= 255;
    case c10::kChar:
      return x >= -128 && x <= 127;
    case c10::kShort:
      return x >= -32768 && x <= 32767;
    case c10::kInt:
      return x >= -0x1p31 && x < 0x1p31;
    case c10::kLong:  // as a double the largest one is rounded up
      return x >= -0x1p63 && (number.isIntegral(true) ? x <= 0x1p63 : x < 0x1p63);
    case c10::kHalf:
      return is_within(std::numeric_limits<c10::Half>::max());
    case c10::kBFloat16:
      return is_within(std::numeric_limits<c10::BFloat16>::max());
    case c10::kFloat:
      return is_within(std::numeric_limits<float>::max());
    default:
      return c10::isFloatingType(type);
  }
}

c10::Scalar number_of(const at::Tensor& t) {
  // Reading the memory directly: item() would go through the dispatcher.
  const void* p = t.const_data_ptr();
  switch (t.scalar_type()) {
    case c10::ScalarType::Double:
      return *static_cast<const double*>(p);
    case c10::ScalarType::Long:
      return *static_cast<const int64_t*>(p);
    case c10::ScalarType::Bool:
      return *static_cast<const bool*>(p);
    default:
      return t.item();
  }
}

ir::Value read(lazy::Recording& r, const Operand& o, ir::DType type, const lazy::Order& order) {
  if (!o.tensor) return r.number(o.number, type);
  if (!o.tensor->is_privateuseone()) return r.number(number_of(*o.tensor), type);
  const at::Tensor& t = *o.tensor;
  ir::Value v;
  if (order.empty() || static_cast<size_t>(t.dim()) == order.size()) {
    v = r.value(t, t.dim() ? order : lazy::Order{});
  } else if (t.dim() == 0) {
    v = r.value(t);
  } else {
    // Missing leading dimensions are of size one, and then follow the order.
    ir::Dims shape(order.size() - static_cast<size_t>(t.dim()), 1);
    shape.append({t.sizes().data(), t.sizes().size()});
    v = r.permute(r.reshape(r.value(t), shape), order);
  }
  return r.convert(v, type);
}

at::Tensor& store(at::Tensor& out, const at::Tensor& result) {
  if (at::native::resize_output(out, result.sizes()) && result.is_non_overlapping_and_dense())
    out.unsafeGetTensorImpl()->set_sizes_and_strides(result.sizes(), result.strides());
  return out.copy_(result);
}

}  // namespace lazuli::backend
