// Creation, views and storage surgery: what decides which memory a tensor is a window on. No value is recorded here but
// for resizing.
#include <ATen/EmptyTensor.h>
#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/native/TensorFactories.h>
#include <torch/library.h>
#include "backend/device/storage_surgery.h"
#include "backend/record/dispatch.h"
#include "backend/record/operands.h"
#include "backend/record/registration.h"
#include "ir/error.h"
#include "lazy/run/sync.h"

namespace lazuli::backend {
namespace {

using at::IntArrayRef;
using at::Tensor;
using c10::ScalarType;
using std::optional;

ScalarType or_default(optional<ScalarType> t) { return t ? *t : c10::typeMetaToScalarType(c10::get_default_dtype()); }

void check_creation(IntArrayRef sizes, optional<c10::Layout> layout, optional<c10::Device> device,
                    optional<bool> pinned) {
  at::detail::check_size_nonnegative(sizes);
  TORCH_CHECK(!layout || *layout == c10::kStrided, "lazuli: only strided tensors live on this device, not ", *layout);
  TORCH_CHECK(!device || device->index() <= 0, "lazuli: there is no device ", *device,
              "; this process has one lazuli device");
  TORCH_CHECK(!pinned || !*pinned, "Only dense CPU tensors can be pinned");
}

// What use_deterministic_algorithms asks for: no content is content too (NaN).
bool no_content_is_content() {
  const auto& context = at::globalContext();
  return context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory();
}

Tensor without_content(IntArrayRef sizes, const ir::Dims& strides, optional<ScalarType> type) {
  Tensor t = lazy::make_empty(sizes, lazy::to_ref(strides), or_default(type));
  if (C10_UNLIKELY(no_content_is_content())) at::native::fill_empty_deterministic_(t);
  return t;
}

Tensor empty(IntArrayRef sizes, optional<ScalarType> type, optional<c10::Layout> layout, optional<c10::Device> device,
             optional<bool> pinned, optional<c10::MemoryFormat> format) {
  check_creation(sizes, layout, device, pinned);
  // In the words of torch's own allocation.
  TORCH_CHECK(format != c10::MemoryFormat::ChannelsLast || sizes.size() == 4,
              "required rank 4 tensor to use channels_last format");
  TORCH_CHECK(format != c10::MemoryFormat::ChannelsLast3d || sizes.size() == 5,
              "required rank 5 tensor to use channels_last_3d format");
  ir::Dims strides = ir::contiguous_strides(lazy::to_dims(sizes));
  if (format == c10::MemoryFormat::ChannelsLast) strides = lazy::to_dims(c10::get_channels_last_strides_2d(sizes));
  if (format == c10::MemoryFormat::ChannelsLast3d) strides = lazy::to_dims(c10::get_channels_last_strides_3d(sizes));
  return without_content(sizes, strides, type);
}

Tensor empty_strided(IntArrayRef sizes, IntArrayRef strides, optional<ScalarType> type, optional<c10::Layout> layout,
                     optional<c10::Device> device, optional<bool> pinned) {
  check_creation(sizes, layout, device, pinned);
  return without_content(sizes, lazy::to_dims(strides), type);
}

// A zero tensor without content, for forward-mode derivatives.
Tensor efficient_zero(IntArrayRef sizes, optional<ScalarType> type, optional<c10::Layout> layout,
                      optional<c10::Device> device, optional<bool> pinned) {
  Tensor base = empty(sizes, type, layout, device, pinned, std::nullopt);
  auto t = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(base.storage()),
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1) | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor),
      base.dtype());
  t.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return t;
}

Tensor as_strided(const Tensor& self, IntArrayRef sizes, IntArrayRef strides, optional<int64_t> offset) {
  int64_t at = offset.value_or(self.storage_offset());
  TORCH_CHECK(sizes.size() == strides.size(), "mismatch in length of strides and shape");
  for (int64_t s : strides)
    TORCH_CHECK(s >= 0, "as_strided: Negative strides are not supported at the moment, got strides: ", strides);
  at::native::checkInBoundsForStorage(sizes, strides, at, self.dtype(), self.storage());
  return lazy::make_view(self, sizes, strides, at);
}

Tensor view(const Tensor& self, IntArrayRef sizes) {
  at::DimVector inferred = at::infer_size_dv(sizes, self.numel());
  auto strides = at::detail::computeStride(self.sizes(), self.strides(), inferred);
  TORCH_CHECK(
      strides.has_value(),
      "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
      "contiguous subspaces). Use .reshape(...) instead.");
  return lazy::make_view(self, inferred, *strides, self.storage_offset());
}

Tensor reshape_alias(const Tensor& self, IntArrayRef sizes, IntArrayRef strides) {
  return lazy::make_view(self, sizes, strides, self.storage_offset());
}

// Torch's kernel sees memory that begins with the tensor, and so cannot tell where that is in its storage.
Tensor view_as_complex(const Tensor& self) {
  Tensor view = fall_back<Tensor>("aten::view_as_complex", "", self);
  TORCH_CHECK(self.storage_offset() % 2 == 0, "Tensor must have a storage_offset divisible by 2");
  return view;
}

// Gives the storage this many bytes, keeping what fits of its content.
void resize_storage(c10::StorageImpl* impl, size_t bytes) {
  if (impl->nbytes() == bytes) return;
  TORCH_CHECK(impl->resizable(), "Trying to resize storage that is not resizable");
  auto& storage = static_cast<lazy::LazyStorage&>(*impl);
  lazy::Cell* cell = storage.cell();
  int64_t item = ir::item_size(cell->type.dtype);
  ir::Type type{cell->type.dtype, {static_cast<int64_t>(bytes) / item}};
  if (static_cast<size_t>(type.shape[0] * item) != bytes) type = {ir::DType::U8, {static_cast<int64_t>(bytes)}};
  if (cell->state == lazy::Cell::State::Uninitialized || storage.nbytes() == 0 || bytes == 0) {
    storage.rebind(lazy::make_uninitialized(type));
  } else {
    lazy::Recording r;
    ir::Value old = r.storage_value(storage);
    int64_t old_bytes = static_cast<int64_t>(storage.nbytes());
    ir::Value flat = r.emit(ir::Op::bitcast, {old}, {{static_cast<int64_t>(ir::DType::U8)}, {old_bytes}});
    int64_t kept = std::min<int64_t>(old_bytes, static_cast<int64_t>(bytes));
    ir::Value head = r.emit(ir::Op::slice, {flat}, {{0}, {kept}, {1}});
    if (kept < static_cast<int64_t>(bytes))
      head = r.emit(ir::Op::pad, {head, r.constant(0, ir::DType::U8)}, {{0}, {static_cast<int64_t>(bytes) - kept}});
    r.rebind_storage(storage, r.emit(ir::Op::bitcast, {head}, {{static_cast<int64_t>(type.dtype)}, {type.shape[0]}}));
  }
  storage.resize(bytes);
}

const Tensor& resize_(const Tensor& self, IntArrayRef sizes, optional<c10::MemoryFormat> format) {
  auto* impl = self.unsafeGetTensorImpl();
  if (self.sizes() != sizes) {
    impl->set_sizes_contiguous(sizes);
    size_t needed =
        at::detail::computeStorageNbytes(impl->sizes(), impl->strides(), self.itemsize(), self.storage_offset());
    const size_t before = self.storage().nbytes();
    if (needed > before) {
      resize_storage(self.storage().unsafeGetStorageImpl(), needed);
      if (C10_UNLIKELY(no_content_is_content()))
        at::native::fill_resize_deterministic_(self, static_cast<int64_t>(before));
    }
  }
  if (format) {
    TORCH_CHECK(*format != c10::MemoryFormat::Preserve, "Unsupported memory format", *format);
    impl->empty_tensor_restride(*format);
  }
  return self;
}

Tensor& set_storage(Tensor& self, at::Storage source, int64_t offset, IntArrayRef sizes, IntArrayRef strides) {
  at::native::checkSetStorage(self, std::move(source), offset, sizes, strides);
  auto* impl = self.unsafeGetTensorImpl();
  if (strides.data() == nullptr)
    impl->set_sizes_contiguous(sizes), impl->set_storage_offset(offset);
  else
    impl->set_sizes_and_strides(sizes, strides, offset);
  size_t needed = at::detail::computeStorageNbytes(impl->sizes(), impl->strides(), self.itemsize(), offset);
  if (self.numel() > 0 && needed > self.storage().nbytes())
    resize_storage(self.storage().unsafeGetStorageImpl(), needed);
  return self;
}
Tensor& set_source_storage(Tensor& self, at::Storage source) {
  int64_t n = static_cast<int64_t>(source.nbytes() / self.itemsize());
  return set_storage(self, std::move(source), 0, {n}, {});
}
Tensor& set_source_tensor(Tensor& self, const Tensor& source) {
  return set_storage(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}
Tensor& set_empty(Tensor& self) {
  Tensor fresh = lazy::make_empty({0}, {1}, self.scalar_type());
  return set_source_tensor(self, fresh);
}

bool compatible_shallow_copy(const Tensor& self, const Tensor& from) {
  auto plain = [](const Tensor& t) {
    return t.layout() == c10::kStrided && (t.is_privateuseone() || t.is_cpu() || t.is_cuda());
  };
  return plain(self) && plain(from);
}

// Whether both show the same elements of one memory, in the same way.
bool is_set_to(const Tensor& a, const Tensor& b) {
  return a.is_alias_of(b) && a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

}  // namespace

void resize_storage_bytes(c10::StorageImpl* storage, size_t bytes) { resize_storage(storage, bytes); }

void register_views(torch::Library& m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_efficientzerotensor", efficient_zero);
  m.impl("as_strided", as_strided);
  m.impl("view", view);
  m.impl("view_as_complex", view_as_complex);
  m.impl("_reshape_alias", reshape_alias);
  m.impl("resize_", resize_);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("set_.source_Storage", set_source_storage);
  m.impl("set_.source_Tensor", set_source_tensor);
  m.impl("set_", set_empty);
  m.impl("is_set_to", is_set_to);
  m.impl("_has_compatible_shallow_copy_type", compatible_shallow_copy);
}

}  // namespace lazuli::backend
