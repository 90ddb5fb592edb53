// Moving elements by position or by index: concatenation, padding, gathering, embedding, ranges.
#include <cmath>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/IListRef.h>
#include <ATen/ops/_pad_circular_native.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/narrow_copy_native.h>
#include <ATen/ops/stack_native.h>
#include "backend/record/dispatch.h"
#include "backend/record/format.h"
#include "backend/record/operands.h"
#include "backend/record/registration.h"
#include "lazy/memory/backing.h"
#include "lazy/record/appending.h"
#include "lazy/record/tape.h"

namespace lazuli::backend {
namespace {

using at::IntArrayRef;
using at::Scalar;
using at::Tensor;
using std::optional;

bool is_index(const Tensor& t) { return is_ours(t) && (t.scalar_type() == at::kLong || t.scalar_type() == at::kInt); }

Tensor cat(const at::ITensorListRef& tensors, int64_t dim) {
  auto list = tensors.materialize();
  std::vector<Tensor> all;
  for (const Tensor& t : list) all.push_back(t);
  auto give_up = [&] { return fall_back<Tensor>("aten::cat", "", all, dim); };
  // Empty one-dimensional operands are skipped, as torch does.
  std::vector<const Tensor*> parts;
  for (const Tensor& t : all)
    if (!(t.dim() == 1 && t.numel() == 0)) parts.push_back(&t);
  if (parts.empty()) return give_up();
  const Tensor& first = *parts[0];
  if (first.dim() == 0) return give_up();
  dim = at::maybe_wrap_dim(dim, first.dim());
  for (const Tensor* t : parts) {
    if (t->dim() != first.dim()) return give_up();
    for (int64_t d = 0; d < first.dim(); ++d)
      if (d != dim && t->size(d) != first.size(d)) return give_up();
  }
  // What is skipped has a say in type and format all the same.
  Operands operands;
  bool same_format = true;
  for (const Tensor& t : all) {
    if (!is_ours(t)) return give_up();
    operands.push_back({&t, {}});
    same_format &= t.suggest_memory_format() == first.suggest_memory_format();
  }
  const at::ScalarType type = promoted_type(operands);
  const lazy::Order order = same_format ? format_order(first) : lazy::Order{};
  const bool may_grow = all.size() == 2 && parts.size() == 2 && order.empty() && lazy::may_grow(all[0], all[1], dim);
  if (may_grow)
    if (Tensor grown = lazy::append_in_place(all[0], all[1], dim); grown.defined()) return grown;
  lazy::Recording r;
  std::vector<ir::Value> in;
  for (const Tensor* t : parts) in.push_back(read(r, {t, {}}, lazy::to_ir(type), order));
  int64_t place = order.empty() ? dim : std::ranges::find(order, ir::Size(dim)) - order.begin();
  Tensor joined = r.tensor(r.emit(ir::Op::cat, in, {{place}}, {}), type, order);
  if (may_grow) lazy::note_growth(all[0], dim, joined);
  return joined;
}

// Where formats or types have a say, it is what torch makes of it.
Tensor stack(at::TensorList tensors, int64_t dim) {
  const auto fits = [&](const Tensor& t) {
    return is_ours(t) && t.sizes() == tensors[0].sizes() && t.scalar_type() == tensors[0].scalar_type();
  };
  const bool has_format = !tensors.empty() && tensors[0].dim() >= 3 && tensors[0].dim() <= 5;
  if (tensors.empty() || has_format || !std::ranges::all_of(tensors, fits)) {
    if (lazy::Tape::current()) throw NotTaped{};
    return at::native::stack(tensors, dim);
  }
  dim = at::maybe_wrap_dim(dim, tensors[0].dim() + 1);
  ir::Dims part = lazy::to_dims(tensors[0].sizes()), whole = part;
  part.insert(static_cast<size_t>(dim), 1);
  whole.insert(static_cast<size_t>(dim), static_cast<int64_t>(tensors.size()));
  const bool has_next = dim < tensors[0].dim();  // a dimension along which to put them one behind the other
  lazy::Recording r;
  std::vector<ir::Value> in;
  in.reserve(tensors.size());
  for (const Tensor& t : tensors) in.push_back(has_next ? r.value(t) : r.reshape(r.value(t), part));
  return r.tensor(r.reshape(r.emit(ir::Op::cat, in, {{dim}}, {}), whole), tensors[0].scalar_type());
}

Tensor pad(const Tensor& x, IntArrayRef amounts, const Scalar& value) {
  bool fits =
      is_ours(x) && takes(x, value) && amounts.size() % 2 == 0 && static_cast<int64_t>(amounts.size()) <= 2 * x.dim();
  ir::Dims low(x.dim(), 0), high(x.dim(), 0);
  for (size_t i = 0; fits && i < amounts.size() / 2; ++i) {
    size_t d = x.dim() - 1 - i;
    low[d] = amounts[2 * i], high[d] = amounts[2 * i + 1];
    fits = x.size(d) + low[d] + high[d] >= 0;
  }
  if (!fits) return fall_back<Tensor>("aten::constant_pad_nd", "", x, amounts, value);
  lazy::Recording r;
  ir::Attrs attrs;
  attrs.add(low).add(high);
  ir::Value y = r.emit(ir::Op::pad, {r.value(x), r.number(value, lazy::to_ir(x.scalar_type()))}, attrs);
  return tensor_in(r, y, x.scalar_type(), format_order(x));
}

Tensor embedding(const Tensor& weight, const Tensor& index, int64_t padding, bool scale, bool sparse) {
  if (!is_ours(weight) || weight.dim() != 2 || weight.numel() == 0 || !is_index(index))
    return fall_back<Tensor>("aten::embedding", "", weight, index, padding, scale, sparse);
  lazy::Recording r;
  return r.tensor(r.emit(ir::Op::index_select, {r.value(weight), r.value(index)}, {{0}}), weight.scalar_type());
}

Tensor embedding_backward(const Tensor& gy, const Tensor& index, int64_t rows, int64_t padding, bool scale) {
  if (!is_ours(gy) || !is_index(index) || scale)
    return fall_back<Tensor>("aten::embedding_dense_backward", "", gy, index, rows, padding, scale);
  lazy::Recording r;
  return r.tensor(r.emit(ir::Op::embedding_backward, {r.value(gy), r.value(index)}, {{rows}, {padding}}),
                  gy.scalar_type());
}

Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index) {
  if (!is_ours(x) || !is_index(index) || index.dim() != 1 || x.numel() == 0 || x.dim() == 0)
    return fall_back<Tensor>("aten::index_select", "", x, dim, index);
  lazy::Recording r;
  return r.tensor(r.emit(ir::Op::index_select, {r.value(x), r.value(index)}, {{at::maybe_wrap_dim(dim, x.dim())}}),
                  x.scalar_type());
}

// The transposes of slicing and selecting: zeros with a window written.
ir::Value placed(lazy::Recording& r, const Tensor& g, const ir::Dims& shape, const ir::Dims& strides, int64_t offset) {
  ir::DType t = lazy::to_ir(g.scalar_type());
  ir::Attrs attrs;
  attrs.add(strides).add(offset);
  return r.emit(ir::Op::as_strided_scatter, {r.full(shape, 0, t), r.value(g)}, attrs);
}
Tensor select_backward(const Tensor& g, IntArrayRef sizes, int64_t dim, int64_t index) {
  if (!is_ours(g)) return fall_back<Tensor>("aten::select_backward", "", g, sizes, dim, index);
  dim = at::maybe_wrap_dim(dim, sizes.size());
  if (index < 0) index += sizes[dim];
  ir::Dims shape = lazy::to_dims(sizes), strides = ir::contiguous_strides(shape);
  int64_t offset = index * strides[dim];
  strides.erase(dim);
  lazy::Recording r;
  return r.tensor(placed(r, g, shape, strides, offset), g.scalar_type());
}
Tensor slice_backward(const Tensor& g, IntArrayRef sizes, int64_t dim, int64_t start, int64_t end, int64_t step) {
  if (!is_ours(g)) return fall_back<Tensor>("aten::slice_backward", "", g, sizes, dim, start, end, step);
  dim = at::maybe_wrap_dim(dim, sizes.size());
  if (start < 0) start += sizes[dim];
  start = std::clamp<int64_t>(start, 0, sizes[dim]);
  ir::Dims shape = lazy::to_dims(sizes), strides = ir::contiguous_strides(shape);
  int64_t offset = start * strides[dim];
  strides[dim] *= step;
  lazy::Recording r;
  return r.tensor(placed(r, g, shape, strides, offset), g.scalar_type());
}

Tensor flip(const Tensor& x, IntArrayRef dims) {
  // The kernel on the host knows no such numbers; they move as integers of their size.
  if (x.scalar_type() == c10::kComplexHalf)
    return at::flip(x.resolve_conj().view(c10::kInt), dims).view(c10::kComplexHalf);
  ir::Dims turned;
  for (int64_t d : dims) turned.push_back(at::maybe_wrap_dim(d, x.dim()));
  std::sort(turned.begin(), turned.end());
  if (!is_ours(x) || std::adjacent_find(turned.begin(), turned.end()) != turned.end())
    return fall_back<Tensor>("aten::flip", "", x, dims);
  const lazy::Order order = result_order({{&x, {}}}, lazy::to_dims(x.sizes()));
  lazy::Recording r;
  ir::Attrs attrs;
  attrs.add(turned);
  ir::Value y = x.dim() ? r.emit(ir::Op::flip, {r.value(x)}, attrs) : r.value(x);
  Tensor out = tensor_in(r, y, x.scalar_type(), order);
  take_strides_like(out, x);
  return out;
}

// 0, 1, ..., n - 1.
ir::Value count_to(lazy::Recording& r, int64_t n) {
  return r.emit(ir::Op::iota, std::span<const ir::Value>(), ir::Attrs{{n}});
}

// How many elements a range has; nothing where eager has an error for it, or rounds in a way of its own.
optional<int64_t> range_size(const Scalar& start, const Scalar& end, const Scalar& step, ir::DType type) {
  if (start.isComplex() || end.isComplex() || step.isComplex() || type == ir::DType::Bool ||
      ir::is_reduced_floating(type))
    return {};
  const bool integral = !start.isFloatingPoint() && !end.isFloatingPoint() && !step.isFloatingPoint();
  if (!integral && !ir::is_floating(type)) return {};
  const double first = start.toDouble(), last = end.toDouble(), by = step.toDouble();
  const double exact = std::ldexp(1.0, 53), n = std::ceil((last - first) / by);
  const bool bounded = std::abs(first) < exact && std::abs(last) < exact && std::abs(by) < exact;
  return bounded && by != 0 && n >= 0 && n < exact && (last - first) * by >= 0 ? optional(static_cast<int64_t>(n))
                                                                               : std::nullopt;
}
Tensor& arange_out(const Scalar& start, const Scalar& end, const Scalar& step, Tensor& out) {
  const ir::DType to = lazy::to_ir(out.scalar_type());
  const optional<int64_t> n = is_ours(out) ? range_size(start, end, step, to) : std::nullopt;
  if (!n) return fall_back<Tensor>("aten::arange", "start_out", start, end, step, out), out;
  if (out.numel() != *n) out.resize_({*n});
  lazy::Recording r;
  const ir::DType compute = ir::is_floating(to) ? ir::DType::F64 : ir::DType::I64;
  ir::Value v = r.convert(count_to(r, *n), compute);
  if (step.toDouble() != 1) v = r.mul(v, r.number(step, compute));
  const bool downwards = step.toDouble() < 0;  // 0 * step is -0.0 then, and 0 + -0.0 is 0
  if (start.toDouble() != 0 || downwards) v = r.add(v, r.number(start, compute));
  r.write(out, r.reshape(r.convert(v, to), lazy::to_dims(out.sizes())));
  return out;
}

// As eager's kernel counts: the first half from the start and the second from the end, so that both are exact.
Tensor& linspace_out(const Scalar& start, const Scalar& end, int64_t steps, Tensor& out) {
  const ir::DType to = lazy::to_ir(out.scalar_type());
  const auto is_plain = [](const Scalar& s) { return !s.isComplex() && std::isfinite(s.toDouble()); };
  const bool ours = is_ours(out) && (to == ir::DType::F32 || to == ir::DType::F64) && steps > 0;
  if (!ours || !is_plain(start) || !is_plain(end))
    return fall_back<Tensor>("aten::linspace", "out", start, end, steps, out), out;
  if (out.numel() != steps) out.resize_({steps});
  const double step = steps > 1 ? (end.toDouble() - start.toDouble()) / static_cast<double>(steps - 1) : 0;
  lazy::Recording r;
  const ir::Value i = count_to(r, steps);
  const auto along = [&](ir::Value from, const Scalar& base) {
    return r.add(r.mul(r.convert(from, ir::DType::F64), r.number(step, ir::DType::F64)),
                 r.number(base, ir::DType::F64));
  };
  ir::Value v = along(i, start);
  if (steps > 1) {
    const ir::Value first_half = r.emit(ir::Op::lt, {i, r.number(steps / 2, ir::DType::I64)});
    const ir::Value back = r.sub(i, r.number(steps - 1, ir::DType::I64));
    v = r.emit(ir::Op::where, {first_half, v, along(back, end)});
  }
  r.write(out, r.reshape(r.convert(v, to), lazy::to_dims(out.sizes())));
  return out;
}

Tensor& eye_out(int64_t n, int64_t m, Tensor& out) {
  if (!is_ours(out) || n < 0 || m < 0) return fall_back<Tensor>("aten::eye", "m_out", n, m, out), out;
  out.resize_({n, m});
  lazy::Recording r;
  const auto along = [&](const ir::Dims& shape) {
    return r.broadcast(r.reshape(count_to(r, product(shape)), shape), ir::Dims{n, m});
  };
  const ir::Value on_diagonal = r.emit(ir::Op::eq, {along({n, 1}), along({1, m})});
  r.write(out, r.convert(on_diagonal, lazy::to_ir(out.scalar_type())));
  return out;
}
Tensor& square_eye_out(int64_t n, Tensor& out) { return eye_out(n, n, out); }

// Torch's kernel for the CPU checks its arguments itself, and refuses in these words.
Tensor narrow_copy(const Tensor& self, int64_t dim, int64_t start, int64_t length) {
  const IntArrayRef self_sizes = self.sizes();
  if (lazy::backing().has_host_kernels && !self_sizes.empty()) {
    if (dim >= 0) TORCH_CHECK(dim < static_cast<int64_t>(self_sizes.size()));
    const int64_t size = self_sizes[at::maybe_wrap_dim(dim, self.dim())];
    const int64_t from = start < 0 && start >= -size ? start + size : start;
    TORCH_CHECK(length >= 0 || from > size, "start (", from, ") + length (", length, ") exceeds dimension size (", size,
                ").");
  }
  return at::native::narrow_copy_dense_symint(self, dim, start, length);
}

// Without dims the elements roll as one row.
Tensor rolled(const Tensor& self, at::IntArrayRef shifts, at::IntArrayRef dims) {
  if (!is_ours(self) || self.numel() == 0 || shifts.empty() ||
      (dims.empty() ? shifts.size() != 1 : dims.size() != shifts.size()))
    return fall_back<Tensor>("aten::roll", "", self, shifts, dims);
  if (dims.empty()) return rolled(self.reshape({-1}), shifts, {0}).view(self.sizes());
  Tensor out = self;
  for (size_t i = 0; i < dims.size(); ++i) {  // one after the other, of which each decides the result's format
    const int64_t size = self.size(dims[i]), shift = (shifts[i] % size + size) % size, start = shift ? size - shift : 0;
    out = at::cat({out.narrow(dims[i], start, size - start), out.narrow(dims[i], 0, start)}, dims[i]);
  }
  return out;
}

// Torch writes the pieces into new memory one after the other. What lies otherwise than by rows, crops or is refused is
// left to it.
Tensor pad_circular(const Tensor& self, c10::SymIntArrayRef symbolic) {
  const auto amounts = c10::asIntArrayRefSlowOpt(symbolic);
  const size_t dims = amounts ? amounts->size() / 2 : 0;
  bool fits = amounts && amounts->size() % 2 == 0 && self.dim() == static_cast<int64_t>(dims) + 2 && self.numel() > 0 &&
              self.suggest_memory_format() == at::MemoryFormat::Contiguous;
  for (size_t i = 0; fits && i < amounts->size(); ++i) {
    const int64_t n = (*amounts)[i];
    fits = n >= 0 && n <= self.size(-1 - static_cast<int64_t>(i / 2));
  }
  if (!fits) return at::native::_pad_circular_symint(self, symbolic);
  Tensor out = self;
  for (size_t i = 0; i < dims; ++i) {
    const int64_t dim = -1 - static_cast<int64_t>(i), size = self.size(dim);
    const int64_t before = (*amounts)[2 * i], behind = (*amounts)[2 * i + 1];
    out = at::cat({out.narrow(dim, size - before, before), out, out.narrow(dim, 0, behind)}, dim);
  }
  // Each of torch's writes counts.
  for (size_t i = 0; i <= amounts->size(); ++i)
    if (i == 0 || (*amounts)[i - 1] > 0) out.unsafeGetTensorImpl()->bump_version();
  return out;
}

}  // namespace

void register_pad_circular(torch::Library& m) { m.impl("_pad_circular", pad_circular); }

void register_indexing(torch::Library& m) {
  m.impl("roll", rolled);
  m.impl("narrow_copy", narrow_copy);
  m.impl("cat", cat);
  m.impl("stack", stack);
  m.impl("constant_pad_nd", pad);
  m.impl("embedding", embedding);
  m.impl("embedding_dense_backward", embedding_backward);
  m.impl("index_select", index_select);
  m.impl("select_backward", select_backward);
  m.impl("slice_backward", slice_backward);
  m.impl("flip", flip);
  m.impl("arange.start_out", arange_out);
  m.impl("linspace.out", linspace_out);
  m.impl("eye.out", square_eye_out);
  m.impl("eye.m_out", eye_out);
}

}  // namespace lazuli::backend
