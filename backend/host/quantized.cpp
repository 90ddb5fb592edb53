// Quantized tensors of the device: their numbers are the content of a storage of ours, and torch's own code keeps the
// quantizer. What computes on them is torch's kernel for the host, between copies.
#include <ATen/EmptyTensor.h>
#include <ATen/ops/_empty_per_channel_affine_quantized.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/_to_copy_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like_native.h>
#include <ATen/ops/empty_quantized_native.h>
#include <ATen/ops/q_per_channel_axis_native.h>
#include <ATen/ops/q_per_channel_scales_native.h>
#include <ATen/ops/q_per_channel_zero_points_native.h>
#include <ATen/ops/q_scale_native.h>
#include <ATen/ops/q_zero_point_native.h>
#include <ATen/ops/qscheme_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/squeeze_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/unsqueeze_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/quantized/QTensorImpl.h>
#include <ATen/quantized/Quantizer.h>
#include "backend/host/on_host.h"
#include "backend/loader/loader.h"
#include "backend/record/registration.h"
#include "lazy/trace/storage.h"

namespace lazuli::backend {

namespace n = at::native;

namespace {

using at::Tensor;
using c10::ScalarType;
using std::optional;

// A byte of these holds several numbers.
bool is_packed(ScalarType t) { return t == c10::kQUInt4x2 || t == c10::kQUInt2x4; }

int64_t in_byte(ScalarType packed) { return packed == c10::kQUInt2x4 ? 4 : 2; }
// As much memory as torch gives them: whole bytes for each row.
int64_t packed_bytes(at::IntArrayRef sizes, ScalarType type) {
  if (sizes.empty()) return 1;
  return c10::multiply_integers(sizes.slice(0, sizes.size() - 1)) *
         ((sizes.back() + in_byte(type) - 1) / in_byte(type));
}

// The memory of a quantized tensor, of any device, as the integers that lie in it; of packed ones, as bytes.
Tensor integers(const Tensor& q) {
  const ScalarType type = c10::toUnderlying(q.scalar_type());
  const auto bytes = static_cast<int64_t>(q.storage().nbytes());
  const bool packed = is_packed(q.scalar_type());
  TORCH_CHECK(!packed || (q.is_contiguous() && q.storage_offset() == 0), "lazuli: a part of a tensor of ",
              q.scalar_type(), " has no memory of its own");
  const c10::DispatchKeySet key(c10::computeDispatchKey(type, c10::kStrided, q.device()));
  Tensor t = q.is_privateuseone() ? lazy::make_view(q, q.sizes(), q.strides(), q.storage_offset())
                                  : at::detail::make_tensor<c10::TensorImpl>(c10::Storage(q.storage()), key,
                                                                             c10::scalarTypeToTypeMeta(type));
  c10::TensorImpl* impl = t.unsafeGetTensorImpl();
  impl->set_storage_and_dtype(q.storage(), c10::scalarTypeToTypeMeta(type));
  if (packed)
    impl->set_sizes_contiguous({bytes});
  else
    impl->set_sizes_and_strides(q.sizes(), q.strides(), q.storage_offset());
  return t;
}

// The same quantizer with what it reads on that device.
at::QuantizerPtr quantizer_on(const at::QuantizerPtr& quantizer, c10::Device device) {
  const c10::QScheme scheme = quantizer->qscheme();
  if (scheme != c10::kPerChannelAffine && scheme != c10::kPerChannelAffineFloatQParams) return quantizer;
  const auto& channels = static_cast<const at::PerChannelAffineQuantizer&>(*quantizer);
  return at::make_per_channel_affine_quantizer(channels.scales().to(device), channels.zero_points().to(device),
                                               channels.axis(), channels.scalar_type());
}

at::QuantizerPtr quantizer_of(const Tensor& q) { return at::get_qtensorimpl(q)->quantizer(); }

ScalarType quantized_type(optional<ScalarType> type) {
  TORCH_CHECK(type && c10::isQIntType(*type), "lazuli: a quantized tensor has a quantized type");
  return *type;
}

Tensor over(const Tensor& memory, ScalarType type, at::QuantizerPtr quantizer) {
  return at::detail::make_tensor<at::QTensorImpl>(c10::Storage(memory.storage()),
                                                  c10::DispatchKeySet(c10::DispatchKey::QuantizedPrivateUse1),
                                                  c10::scalarTypeToTypeMeta(type), std::move(quantizer));
}

Tensor make_quantized(at::IntArrayRef sizes, optional<c10::MemoryFormat> format, const at::QuantizerPtr& quantizer) {
  at::detail::check_size_nonnegative(sizes);
  const ScalarType type = quantizer->scalar_type();
  const auto options = at::TensorOptions(lazy::device()).dtype(c10::toUnderlying(type));
  const Tensor memory = is_packed(type)
                            ? at::empty({packed_bytes(sizes, type)}, options)
                            : at::empty(sizes, options.memory_format(format.value_or(c10::MemoryFormat::Contiguous)));
  Tensor q = over(memory, type, quantizer);
  if (is_packed(type))
    q.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  else
    q.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, memory.strides());
  return q;
}

Tensor empty_affine(at::IntArrayRef sizes, optional<ScalarType> type, optional<c10::Layout>, optional<c10::Device>,
                    optional<bool>, double scale, int64_t zero_point, optional<c10::MemoryFormat> format) {
  return make_quantized(sizes, format, at::make_per_tensor_affine_quantizer(scale, zero_point, quantized_type(type)));
}

// It comes here too when another device's tensor gets scales of ours.
Tensor empty_per_channel(at::IntArrayRef sizes, const Tensor& scales, const Tensor& zero_points, int64_t axis,
                         optional<ScalarType> type, optional<c10::Layout> layout, optional<c10::Device> device,
                         optional<bool> pinned, optional<c10::MemoryFormat> format) {
  if (device && !device->is_privateuseone())
    return at::_empty_per_channel_affine_quantized(sizes, scales.to(*device), zero_points.to(*device), axis, type,
                                                   layout, device, pinned, format);
  const auto quantizer = at::make_per_channel_affine_quantizer(scales, zero_points, axis, quantized_type(type));
  return make_quantized(sizes, format, quantizer_on(quantizer, lazy::device()));
}

// A kernel that writes this decides on the quantizer.
Tensor empty(at::IntArrayRef sizes, optional<ScalarType> type, optional<c10::Layout>, optional<c10::Device>,
             optional<bool>, optional<c10::MemoryFormat> format) {
  return make_quantized(sizes, format, at::make_unknown_quantizer(quantized_type(type)));
}

// As torch's copy_ between quantized tensors, whose target takes over the quantizer.
Tensor& copy_(Tensor& self, const Tensor& src, bool) {
  TORCH_CHECK(self.is_quantized(),
              "Copying from quantized Tensor to non-quantized Tensor is not allowed, please use "
              "dequantize to get a float Tensor from a quantized Tensor");
  if (self.is_same(src)) return self;
  if (!src.is_quantized()) {
    TORCH_CHECK(src.scalar_type() == c10::kFloat, "Quantized copy only works with kFloat as source Tensor");
    TORCH_CHECK(self.sizes().equals(src.sizes()), "Quantized copy only works with Tensors with the same shape");
    const Tensor host = self.cpu();
    integers(self).copy_(integers(const_cast<Tensor&>(host).copy_(src.cpu())));
    return self;
  }
  const at::QuantizerPtr quantizer = quantizer_of(src), own = quantizer_of(self);
  TORCH_CHECK(own->qscheme() == quantizer->qscheme() || own->qscheme() == c10::kPerTensorAffine,
              "Quantized Copy only works with same qscheme");
  TORCH_CHECK(self.scalar_type() == src.scalar_type(), "Quantized copy only works with the same type");
  integers(self).copy_(integers(src));
  at::set_quantizer_(self, quantizer_on(quantizer, self.device()));
  return self;
}

Tensor clone(const Tensor& self, optional<c10::MemoryFormat> format) {
  Tensor result = n::empty_like_quantized(self, {}, {}, {}, {}, format.value_or(c10::MemoryFormat::Contiguous));
  return copy_(result, self, false);
}

// Torch's own takes a tensor with gaps between its numbers nowhere.
Tensor copy_quantized(const Tensor& self, optional<ScalarType> type, optional<c10::Layout> layout,
                      optional<c10::Device> device, optional<bool> pinned, bool non_blocking,
                      optional<c10::MemoryFormat> format) {
  const Tensor dense = self.is_non_overlapping_and_dense() ? self : self.contiguous();
  return n::_to_copy(dense, type, layout, device, pinned, non_blocking, format);
}

Tensor int_repr(const Tensor& self) {
  const ScalarType type = self.scalar_type();
  if (!is_packed(type)) return integers(self).clone(self.suggest_memory_format());
  return integers(self).narrow(0, 0, (self.numel() + in_byte(type) - 1) / in_byte(type)).clone();
}

const Tensor& resize_(const Tensor& self, at::IntArrayRef sizes, optional<c10::MemoryFormat> format) {
  TORCH_CHECK(!format, "Unsupported memory format for quantized tensor resize ", *format);
  TORCH_CHECK(quantizer_of(self)->qscheme() == c10::kPerTensorAffine,
              "Can only resize quantized tensors with per-tensor schemes!");
  TORCH_CHECK(!is_packed(self.scalar_type()), "lazuli: tensors of ", self.scalar_type(), " are not resized");
  integers(self).resize_(sizes);
  self.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return self;
}

// A kernel on the host has written a copy of this tensor.
Tensor copy_quantized_from(const Tensor& from, const Tensor& to) {
  Tensor target = to;
  if (target.sizes() != from.sizes()) resize_(target, from.sizes(), std::nullopt);
  return copy_(target, from, false);
}

void whatever_else_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasComputedKernelForDispatchKey(c10::DispatchKey::QuantizedCPU), "Could not run '",
                              op.operator_name(),
                              "' with quantized tensors on lazuli: torch has no such kernel for the CPU");
  on_host<c10::DispatchKey::QuantizedCPU>(op, stack);
}

}  // namespace

// These make quantized tensors of strided ones. What they read besides may lie on the host.
void register_quantized(torch::Library& m) {
  for (const char* name : {"_make_per_channel_quantized_tensor", "_make_per_tensor_quantized_tensor",
                           "quantize_per_channel", "quantize_per_tensor", "quantize_per_tensor.tensor_qparams",
                           "quantize_per_tensor.tensors", "quantize_per_tensor_dynamic"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&on_host<c10::DispatchKey::CPU>>());
}

TORCH_LIBRARY_IMPL(aten, QuantizedPrivateUse1, m) {
  m.impl("_copy_from_and_resize", copy_quantized_from);
  m.impl("_empty_affine_quantized", empty_affine);
  m.impl("_empty_per_channel_affine_quantized", empty_per_channel);
  m.impl("_reshape_alias", n::_reshape_alias);
  m.impl("_to_copy", copy_quantized);
  m.impl("as_strided", n::as_strided_qtensorimpl);
  m.impl("clone", clone);
  m.impl("copy_", copy_);
  m.impl("empty.memory_format", empty);
  m.impl("empty_like", n::empty_like_quantized);
  m.impl("empty_quantized", n::empty_quantized);
  m.impl("int_repr", int_repr);
  m.impl("q_per_channel_axis", n::q_per_channel_axis);
  m.impl("q_per_channel_scales", n::q_per_channel_scales);
  m.impl("q_per_channel_zero_points", n::q_per_channel_zero_points);
  m.impl("q_scale", n::q_scale_quant);
  m.impl("q_zero_point", n::q_zero_point_quant);
  m.impl("qscheme", n::qscheme_quant);
  m.impl("resize_", resize_);
  m.impl("set_.source_Storage_storage_offset", n::set_storage_quantized_);
  m.impl("squeeze", static_cast<Tensor (*)(const Tensor&)>(n::squeeze_quantized));
  m.impl("squeeze.dim", static_cast<Tensor (*)(const Tensor&, int64_t)>(n::squeeze_quantized));
  m.impl("squeeze.dims", static_cast<Tensor (*)(const Tensor&, at::IntArrayRef)>(n::squeeze_quantized));
  m.impl("unfold", n::unfold);
  m.impl("unsqueeze", n::unsqueeze_quantized);
  m.impl("view", n::view);
  rest_on_host<c10::DispatchKey::QuantizedCPU, c10::DispatchKey::QuantizedPrivateUse1>(m);
}

[[maybe_unused]] const bool is_quantized_fallback =
    set_fallback(c10::DispatchKey::QuantizedPrivateUse1, &whatever_else_on_host);

}  // namespace lazuli::backend
