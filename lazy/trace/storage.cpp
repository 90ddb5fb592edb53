#include "lazy/trace/storage.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include "lazy/memory/backing.h"
#include "lazy/memory/memory.h"
#include "lazy/support/convert.h"
#include "lazy/support/version_counters.h"

namespace lazuli::lazy {
namespace {

void keep(void*) {}

// No address of x86-64 or of 64-bit ARM has these upper bits.
void* stand_in(const void* unique) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(unique) | uintptr_t{1} << 62);
}
c10::DataPtr unowned(void* data) { return {data, nullptr, &keep, device()}; }

// What torch.accelerator's memory calls go to. allocate() serves callers that want raw device memory; a LazyStorage's
// own memory belongs to its cell.
class DeviceAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    auto* buffer = new jit::Buffer(allocate_buffer(bytes));
    return {buffer->data, buffer, [](void* p) { delete static_cast<jit::Buffer*>(p); }, device()};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override { backing().copy(to, from, bytes); }

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override { release_cached_memory(); }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}  // work has one order
  MemoryStats getDeviceStats(c10::DeviceIndex) override { return memory_stats(); }
  void resetAccumulatedStats(c10::DeviceIndex) override { reset_accumulated_memory(); }
  void resetPeakStats(c10::DeviceIndex) override { reset_peak_memory(); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex) override { return memory_info(); }
};

}  // namespace

c10::Allocator* make_storage_allocator() { return new DeviceAllocator; }

LazyStorage::LazyStorage(CellRef cell, size_t bytes)
    : StorageImpl(use_byte_size_t(), c10::SymInt(static_cast<int64_t>(bytes)), unowned(stand_in(this)),
                  storage_allocator(),
                  /*resizable=*/true),
      cell_(std::move(cell)) {}

LazyStorage::LazyStorage(Prefix prefix) : LazyStorage(CellRef(), static_cast<size_t>(prefix.type().bytes())) {
  prefix_ = std::make_unique<Prefix>(std::move(prefix));
}

void* LazyStorage::lend() {
  if (!lent_) {
    lent_ = std::make_unique<LentMemory>(*this, nbytes());
    set_data_ptr_noswap(unowned(lent_->data()));
  }
  return lent_->data();
}

void LazyStorage::resize(size_t bytes) {
  set_nbytes(bytes);
  notes_.reset();
  if (!lent_) return;
  lent_.reset();
  set_data_ptr_noswap(unowned(stand_in(this)));
}

void LazyStorage::take_lent() {
  cell_ = lent_->take(cell_->type);
  notes_.reset();
}

void throw_foreign_storage(const at::Tensor& t) {
  TORCH_CHECK(false, "lazuli: this tensor's storage was not made by the lazuli device (", t.device(), ", ", t.sizes(),
              "); wrapping foreign memory as a lazuli tensor is not supported");
}

// As torch's own constructor for a tensor over a storage does. The one used here makes no version counter for a tensor
// whose keys are those of inference mode, as ours are while it runs.
LazyTensor::LazyTensor(c10::Storage&& storage, caffe2::TypeMeta type, c10::DispatchKeySet meaning, bool inference)
    : TensorImpl(VIEW, std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1) | meaning, type) {
  using K = c10::DispatchKey;
  key_set_ = key_set_ | c10::DispatchKeySet(K::AutocastPrivateUse1);
  if (inference) return;
  key_set_ = key_set_ | c10::DispatchKeySet(K::AutogradPrivateUse1) | c10::DispatchKeySet(K::ADInplaceOrView);
  version_counter_ = VersionCounters::take();
}
LazyTensor::~LazyTensor() { VersionCounters::give(std::move(version_counter_)); }

template <class V>
c10::intrusive_ptr<c10::TensorImpl> LazyTensor::copy(V&& version, bool allow_metadata_change) const {
  // A mode or a subclass wants to make the copy itself.
  if (key_set_.has(c10::DispatchKey::Python) || c10::impl::dispatch_mode_enabled())
    return TensorImpl::shallow_copy_and_detach(std::forward<V>(version), allow_metadata_change);
  auto impl = c10::make_intrusive<LazyTensor>(c10::Storage(storage_), data_type_);
  copy_tensor_metadata(this, impl.get(), std::forward<V>(version), allow_metadata_change);
  return impl;
}
c10::intrusive_ptr<c10::TensorImpl> LazyTensor::shallow_copy_and_detach(const c10::VariableVersion& version,
                                                                        bool allow_metadata_change) const {
  return copy(version, allow_metadata_change);
}
c10::intrusive_ptr<c10::TensorImpl> LazyTensor::shallow_copy_and_detach(c10::VariableVersion&& version,
                                                                        bool allow_metadata_change) const {
  return copy(std::move(version), allow_metadata_change);
}

void LazyTensor::set_row_major(std::span<const int64_t> shape) {
  sizes_and_strides_.resize(shape.size());
  int64_t *sizes = sizes_and_strides_.sizes_data(), *strides = sizes_and_strides_.strides_data();
  int64_t stride = 1, numel = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    sizes[i] = shape[i];
    strides[i] = stride;
    stride *= std::max<int64_t>(shape[i], 1);
    numel *= shape[i];
  }
  numel_ = numel;
  // A fresh tensor is row-major; only images may be channels-last besides.
  if (shape.size() == 4 || shape.size() == 5) refresh_contiguous();
}

c10::intrusive_ptr<c10::StorageImpl> make_storage(CellRef cell, size_t bytes) {
  return c10::make_intrusive<LazyStorage>(std::move(cell), bytes);
}

at::Tensor make_tensor(CellRef cell, c10::ScalarType type) {
  auto meta = c10::scalarTypeToTypeMeta(type);
  const ir::Dims& shape = cell->type.shape;
  size_t bytes = static_cast<size_t>(ir::product(shape)) * meta.itemsize();
  Cell* c = cell.get();
  auto t = at::detail::make_tensor_base<LazyTensor>(c10::Storage(make_storage(std::move(cell), bytes)), meta);
  static_cast<LazyTensor*>(t.unsafeGetTensorImpl())->set_row_major(c->type.shape);
  return at::Tensor(std::move(t));
}

at::Tensor make_tensor(CellRef cell, c10::ScalarType type, at::IntArrayRef sizes, at::IntArrayRef strides) {
  auto meta = c10::scalarTypeToTypeMeta(type);
  size_t bytes = at::detail::computeStorageNbytes(sizes, strides, meta.itemsize());
  auto t = at::detail::make_tensor_base<LazyTensor>(c10::Storage(make_storage(std::move(cell), bytes)), meta);
  t.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return at::Tensor(std::move(t));
}

at::Tensor make_tensor(Prefix prefix, c10::ScalarType type) {
  const ir::Dims sizes = prefix.type().shape;
  auto storage = c10::make_intrusive<LazyStorage>(std::move(prefix));
  auto t = at::detail::make_tensor_base<LazyTensor>(c10::Storage(std::move(storage)), c10::scalarTypeToTypeMeta(type));
  static_cast<LazyTensor*>(t.unsafeGetTensorImpl())->set_row_major(sizes);
  return at::Tensor(std::move(t));
}

at::Tensor make_view(const at::Tensor& base, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset) {
  // What the base makes of its memory (conjugated, negated, zero), its windows make of it.
  const c10::DispatchKeySet meaning =
      base.key_set() &
      c10::DispatchKeySet({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor});
  auto t = at::detail::make_tensor_base<LazyTensor>(c10::Storage(base.storage()), base.dtype(), meaning,
                                                    base.is_inference());
  t.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return at::Tensor(std::move(t));
}

at::Tensor make_empty(at::IntArrayRef sizes, at::IntArrayRef strides, c10::ScalarType type) {
  auto meta = c10::scalarTypeToTypeMeta(type);
  size_t bytes = at::detail::computeStorageNbytes(sizes, strides, meta.itemsize());
  ir::DType dtype = to_ir(type);
  ir::Type cell_type;
  if (dtype == ir::DType::Opaque) {
    cell_type = {ir::DType::U8, {static_cast<int64_t>(bytes)}};
  } else {
    int64_t numel = static_cast<int64_t>(bytes / meta.itemsize());
    bool row_major =
        c10::multiply_integers(sizes) == numel && ir::equal(ir::contiguous_strides(to_dims(sizes)), strides);
    cell_type = {dtype, row_major ? to_dims(sizes) : ir::Dims{numel}};
  }
  return make_tensor(make_uninitialized(std::move(cell_type)), type, sizes, strides);
}

CellRef make_ready(jit::Buffer buffer, ir::Type type) {
  auto* c = new Cell;
  c->state = Cell::State::Ready;
  c->type = std::move(type);
  c->buffer = std::move(buffer);
  return CellRef(c);
}

CellRef make_uninitialized(ir::Type type) {
  auto* c = new Cell;
  c->type = std::move(type);
  return CellRef(c);
}

}  // namespace lazuli::lazy
