// Copies between devices, types and layouts; filling; reading numbers.
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <ATen/Dispatch.h>
#include <ATen/ExpandUtils.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/StreamGuard.h>
#include "backend/record/complex_numbers.h"
#include "backend/record/dispatch.h"
#include "backend/record/elementwise.h"
#include "backend/record/registration.h"
#include "lazy/memory/backing.h"
#include "lazy/memory/memory.h"
#include "lazy/memory/torch_buffers.h"
#include "lazy/report/moved_again.h"
#include "lazy/run/sync.h"
#include "lazy/support/config.h"
#include "lazy/support/dimension_names.h"
#include "lazy/support/mutex.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using c10::Scalar;

bool dense(const Tensor& t, lazy::Order& order) { return lazy::memory_order(t.sizes(), t.strides(), order); }

// Whether the bytes are just those of a little host memory: torch's copy costs more than they do.
bool is_plain(const Tensor& host, c10::ScalarType type, size_t bytes) {
  constexpr size_t kLittle = 16 << 10;  // bytes
  return bytes <= kLittle && lazy::backing().shares_host_memory && host.is_cpu() && host.layout() == c10::kStrided &&
         host.scalar_type() == type && host.is_contiguous() && !host.is_conj() && !host.is_neg() &&
         !host._is_zerotensor();
}

// A row-major snapshot of host memory on our side; the caller may change its tensor at once. `host` may also be torch's
// own tensor on the backing GPU, which work in the current stream may still be about to fill.
lazy::CellRef snapshot(const Tensor& host, c10::ScalarType type) {
  lazy::settle_after_fork();  // torch's copies of large tensors have threads
  ir::DType dtype = lazy::to_ir(type);
  auto bytes = static_cast<size_t>(host.numel()) * c10::elementSize(type);
  // Not behind the previous step.
  c10::OptionalStreamGuard guard(host.is_cpu() ? lazy::backing().side_stream() : std::nullopt);
  jit::Buffer buffer = lazy::allocate_buffer(bytes);
  if (is_plain(host, type, bytes)) {
    if (bytes) std::memcpy(buffer.data, host.const_data_ptr(), bytes);
  } else {
    const ir::Dims strides = ir::contiguous_strides(lazy::to_dims(host.sizes()));
    lazy::tensor_over(buffer.data, host.sizes(), lazy::to_ref(strides), type, nullptr).copy_(host);
  }
  ir::Type value{dtype, lazy::to_dims(host.sizes())};
  if (dtype == ir::DType::Opaque) value = {ir::DType::U8, {static_cast<int64_t>(bytes)}};
  lazy::CellRef cell = lazy::make_ready(std::move(buffer), std::move(value));
  if (host.is_cpu()) cell->job = 0;  // the copy is done
  return cell;
}

// Complex numbers are moved as what our kernels know, their two parts.
bool lies_in_parts(const Tensor& t) { return t.is_complex() && t.layout() == c10::kStrided; }
Tensor in_parts(const Tensor& t) { return lies_in_parts(t) ? at::view_as_real(t) : t; }
// The parts of real numbers as this complex type holds them.
Tensor parts_of_real(const Tensor& t, c10::ScalarType complex) {
  const Tensor real = t.to(c10::toRealValueType(complex));
  return at::stack({real, at::zeros_like(real)}, -1);
}

void copy_from_host(const Tensor& self, const Tensor& src) {
  lazy::note_move(src);
  Tensor expanded = src.sizes() == self.sizes() ? src : src.expand(self.sizes());
  lazy::Order order;
  if (lazy::fills_storage(self) && dense(self, order)) {
    lazy::storage_of(self).rebind(
        snapshot(order.empty() ? expanded : expanded.permute(lazy::to_ref(order)), self.scalar_type()));
    return;
  }
  if (!has_native_numbers(self) && !lies_in_parts(self)) {
    lazy::host_view(self, lazy::SyncReason::HostCopy, true).copy_(expanded);
    return;
  }
  const Tensor staged = in_parts(lazy::make_tensor(snapshot(expanded, self.scalar_type()), self.scalar_type()));
  const Tensor written = in_parts(self);
  lazy::Recording r;
  r.write(written, r.value(staged));
}

// Device to device, same or other type and layout.
void copy_within(const Tensor& self, const Tensor& src) {
  if (lazy::is_reference_mode() && self.scalar_type() != src.scalar_type()) {  // a conversion computes
    fall_back<Tensor>("aten::copy_", "", self, src, false);
    return;
  }
  if (lies_in_parts(self) && (lies_in_parts(src) || has_native_numbers(src)))
    return copy_within(in_parts(self), lies_in_parts(src) ? in_parts(src) : parts_of_real(src, self.scalar_type()));
  if (has_native_numbers(self) && has_native_numbers(src)) {
    lazy::Order order, from;
    bool same = self.scalar_type() == src.scalar_type() && self.sizes() == src.sizes();
    const bool whole = lazy::fills_storage(self) && dense(self, order);
    if (!whole) order.clear();
    lazy::Recording r;
    if (same && whole) return r.rebind_storage(self, r.value(src, order));
    ir::Value v = r.convert(r.value(src), lazy::to_ir(self.scalar_type()));
    ir::Dims shape = lazy::to_dims(self.sizes());
    if (r.shape(v) != shape) v = r.broadcast(v, shape);
    r.write(self, v);
    return;
  }
  Tensor from = lazy::host_view(src, lazy::SyncReason::HostCopy);
  lazy::host_view(self, lazy::SyncReason::HostCopy, true).copy_(from);
}

// `dst` may also be torch's own tensor on the backing GPU: that copy does not wait, so it goes where its readers are.
void copy_to_host(const Tensor& self, const Tensor& dst) {
  const Tensor from = lazy::host_view(self, lazy::SyncReason::HostCopy);
  const size_t bytes = from.nbytes();
  if (from.is_contiguous() && from.sizes() == dst.sizes() && is_plain(dst, from.scalar_type(), bytes)) {
    std::memcpy(dst.mutable_data_ptr(), from.const_data_ptr(), bytes);
    return lazy::backing().raise_failures();
  }
  c10::OptionalStreamGuard guard(dst.is_cpu() ? lazy::stream_to_read(self) : std::nullopt);
  lazy::backing().waiting([&] { const_cast<Tensor&>(dst).copy_(from); });
  lazy::backing().raise_failures();
}

Tensor copy_from(const Tensor& self, const Tensor& dst, bool) {
  if (dst.numel() == 0) return dst;
  if (self.is_privateuseone() && dst.is_privateuseone())
    copy_within(dst, self);
  else if (dst.is_privateuseone())
    copy_from_host(dst, self);
  else
    copy_to_host(self, dst);
  return dst;
}

// What lies in the tensor's memory, whatever the tensor makes of it.
Tensor in_memory(const Tensor& t) {
  if (!t.is_conj() && !t.is_neg()) return t;
  Tensor plain = at::alias(t);
  if (t.is_conj()) plain.unsafeGetTensorImpl()->_set_conj(false);
  if (t.is_neg()) plain.unsafeGetTensorImpl()->_set_neg(false);
  return plain;
}
// What has to lie in the memory of `self` for it to show what `src` shows.
Tensor meant_for(const Tensor& self, const Tensor& src) {
  Tensor plain = in_memory(src);
  if (src.is_conj() != (self.is_conj() && src.is_complex())) plain = plain.conj_physical();
  if (src.is_neg() != self.is_neg()) {  // where they lie
    TORCH_CHECK_NOT_IMPLEMENTED(self.scalar_type() != c10::kBool, "\"neg_cpu\" not implemented for 'Bool'");
    plain = plain.to(self.scalar_type()).neg();
  }
  return plain;
}

// Whether a copy would write what is there.
bool shows_the_same(const Tensor& self, const Tensor& src) {
  return src.is_privateuseone() && self.has_storage() && src.has_storage() && self.is_alias_of(src) &&
         self.storage_offset() == src.storage_offset() && self.strides() == src.strides() &&
         self.sizes() == src.sizes() && self.scalar_type() == src.scalar_type() && self.is_conj() == src.is_conj() &&
         self.is_neg() == src.is_neg();
}

Tensor& copy_elements(Tensor& self, const Tensor& src) {
  if (self.is_same(src)) return self;
  if (src._is_zerotensor()) return self.zero_();
  const bool same = shows_the_same(self, src);
  if (!same) check_overlap(self, {{&src, {}}});  // eager looks at this before shapes
  if (self.sizes() != src.sizes()) {
    auto expanded = at::infer_size_dimvector(self.sizes(), src.sizes());
    TORCH_CHECK(self.sizes() == at::IntArrayRef(expanded), "output with shape ", self.sizes(),
                " doesn't match the broadcast shape ", at::IntArrayRef(expanded));
  }
  if (same) return self;
  copy_from(meant_for(self, src.is_sparse() ? src.to_dense() : src), in_memory(self), false);
  return self;
}

// Dimensions' names go along with the elements.
Tensor& copy_(Tensor& self, const Tensor& src, bool) {
  TORCH_CHECK(src.defined(), "copy_(): the source is undefined");
  if (!lazy::has_names(self) && !lazy::has_names(src)) return copy_elements(self, src);
  lazy::NamesOfResult(self, src).of([&] { copy_elements(self, src); });
  return self;
}

Tensor copy_from_and_resize(const Tensor& self, const Tensor& dst) {
  if (dst.sizes() != self.sizes()) dst.resize_(self.sizes());
  return copy_from(self, dst, false);
}

Scalar local_scalar(const Tensor& self) {
  TORCH_CHECK(self.numel() == 1, "a Tensor with ", self.numel(), " elements cannot be converted to Scalar");
  const Tensor from = lazy::host_view(self, lazy::SyncReason::Read);
  c10::OptionalStreamGuard guard(lazy::stream_to_read(self));
  const Scalar number = lazy::backing().waiting([&] { return at::_local_scalar_dense(from); });
  lazy::backing().raise_failures();
  return number;
}

// A value of one number everywhere, fit for the tensor's shape.
void fill_with(const Tensor& self, const std::function<ir::Value(lazy::Recording&, ir::DType)>& number) {
  lazy::Recording r;
  ir::DType dtype = lazy::to_ir(self.scalar_type());
  r.write_all(self, r.broadcast(number(r, dtype), lazy::to_dims(self.sizes())));
}

// The number as the type holds it; throws torch's error if it does not.
Scalar held(const Scalar& number, c10::ScalarType type) {
  if (type == c10::kBool) return number.to<bool>();
  if (c10::isFloatingType(type)) {
    if (!holds(type, number))
      AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, type, "fill_", [&] { number.to<scalar_t>(); });
    return number;
  }
  return AT_DISPATCH_INTEGRAL_TYPES(type, "fill_", [&] { return Scalar(static_cast<int64_t>(number.to<scalar_t>())); });
}

Tensor& fill_scalar(Tensor& self, const Scalar& number) {
  if (has_parts(self)) {
    Tensor parts = parts_of(self);
    if (number.equal(0)) return fill_scalar(parts, 0), self;
    AT_DISPATCH_COMPLEX_TYPES(self.scalar_type(), "fill_", [&] { number.to<scalar_t>(); });  // torch's error
    lazy::Recording r;
    const ir::DType dtype = lazy::to_ir(parts.scalar_type());
    r.write_all(parts, r.broadcast(complex_number(r, number, dtype), lazy::to_dims(parts.sizes())));
    return self;
  }
  if (!has_native_numbers(self) || number.isComplex())
    return fall_back<Tensor>("aten::fill_", "Scalar", self, number), self;
  const Scalar value = held(number, self.scalar_type());
  double d = value.toDouble();
  // Zeros and ones are everywhere and worth folding into code; any other number may change from step to step.
  bool constant = d == 0 || d == 1;
  fill_with(self, [&](lazy::Recording& r, ir::DType t) { return constant ? r.constant(d, t) : r.number(value, t); });
  return self;
}
// What x[mask] = number makes of the number, which may be too large for a type of 16 bits: eager's is infinite then.
Tensor scalar_tensor(const Scalar& number, std::optional<c10::ScalarType> type, std::optional<c10::Layout> layout,
                     std::optional<c10::Device> device, std::optional<bool> pinned) {
  Tensor out = at::empty({}, type, layout, device, pinned, {});
  const c10::ScalarType own = out.scalar_type();
  const bool is_too_large =
      c10::isReducedFloatingType(own) && has_native_numbers(out) && !number.isComplex() && !holds(own, number);
  return is_too_large ? fill_scalar(out, std::copysign(std::numeric_limits<double>::infinity(), number.toDouble()))
                      : fill_scalar(out, number);
}
Tensor& zero_(Tensor& self) { return fill_scalar(self, 0); }
Tensor& fill_tensor(Tensor& self, const Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(),
              " dimensions.");
  if (!value.is_privateuseone()) return fill_scalar(self, value.item());
  if (!has_native_numbers(self) || !has_native_numbers(value))
    return fall_back<Tensor>("aten::fill_", "Tensor", self, value), self;
  fill_with(self, [&](lazy::Recording& r, ir::DType t) { return r.convert(r.value(value), t); });
  return self;
}

// Torch's shares the memory until one of the two is written. Of ours a clone is no more than recorded until it is read.
Tensor lazy_clone(const Tensor& self) { return self.clone(); }

}  // namespace

void register_copies(torch::Library& m) {
  m.impl("copy_", copy_);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_lazy_clone", lazy_clone);
  m.impl("_local_scalar_dense", local_scalar);
  m.impl("zero_", zero_);
}

void register_filling(torch::Library& m) {
  m.impl("fill_.Scalar", fill_scalar);
  m.impl("scalar_tensor", scalar_tensor);
  m.impl("fill_.Tensor", fill_tensor);
}

}  // namespace lazuli::backend
