// Storage as alias group: all tensors that share memory in eager share one LazyStorage, which holds the current value
// of the whole buffer. Writing rebinds that value; sizes, strides and offset stay with the TensorImpl, as in eager. So
// views, in-place ops, version counters and autograd's checks are torch's own.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include "lazy/run/lent_memory.h"
#include "lazy/trace/cell.h"
#include "lazy/trace/prefix.h"
#include "lazy/trace/value_notes.h"

namespace lazuli::lazy {

inline c10::Device device() { return {c10::DeviceType::PrivateUse1, 0}; }

class LazyStorage final : public c10::StorageImpl, public Pooled<LazyStorage, 256> {
 public:
  using Pooled<LazyStorage, 256>::operator new;
  using Pooled<LazyStorage, 256>::operator delete;
  // The data pointer is a stand-in, unique and not null, that cannot be followed: torch's structured kernels ask for
  // it, too.
  LazyStorage(CellRef cell, size_t bytes);
  explicit LazyStorage(Prefix prefix);
  void release_resources() override {
    cell_ = CellRef();
    prefix_.reset();
    notes_.reset();
    lent_.reset();
    StorageImpl::release_resources();
  }
  // What it holds. If it shows a prefix, this is a value that only the current trace keeps.
  Cell* cell() {
    if (prefix_) [[unlikely]]
      return prefix_cell();
    return cell_ref().get();
  }
  // What it holds, for who keeps it.
  const CellRef& cell_ref() {
    if (prefix_) [[unlikely]]
      settle();
    if (lent_ && lent_->is_written()) [[unlikely]]
      take_lent();
    return cell_;
  }
  // What it shows of memory with room; null: it has a value of its own.
  const Prefix* prefix() const { return prefix_.get(); }
  void rebind(CellRef cell) {
    cell_ = std::move(cell);
    prefix_.reset();
    notes_.reset();
    close_lent();
  }
  // Memory for who asks for an address. It is the data pointer from then on.
  void* lend();
  // After this the storage has that many bytes, whatever it is bound to, and no address.
  void resize(size_t bytes);
  // The buffer that holds the value is about to be written where it lies.
  void will_be_written() {
    notes_.reset();
    close_lent();
  }
  // Of what it holds since it was last written.
  ValueNotes& notes() {
    if (lent_ && lent_->is_written()) [[unlikely]]
      take_lent();
    if (!notes_) notes_ = std::make_unique<ValueNotes>();
    return *notes_;
  }

 private:
  void take_lent();
  // Both in lazy/record/appending.cpp. From `settle` on the storage has a value of its own.
  Cell* prefix_cell();
  void settle();
  // What is lent has to be filled again.
  void close_lent() {
    if (lent_) [[unlikely]]
      lent_->close();
  }

  CellRef cell_;  // null while there is a prefix
  std::unique_ptr<Prefix> prefix_;
  std::unique_ptr<ValueNotes> notes_;
  std::unique_ptr<LentMemory> lent_;
};

// The mark by which our storages are known; also the device's allocator.
c10::Allocator* make_storage_allocator();
inline c10::Allocator* storage_allocator() {
  static auto* a = make_storage_allocator();
  return a;
}
[[noreturn]] void throw_foreign_storage(const at::Tensor& t);

// Throws a torch error for a tensor whose storage Lazuli did not make.
inline LazyStorage& storage_of(const at::Tensor& t) {
  auto* s = t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  if (!s || s->allocator() != storage_allocator()) [[unlikely]]
    throw_foreign_storage(t);
  return *static_cast<LazyStorage*>(s);
}
// Whether the tensor's elements are as many as its storage holds, from the first on.
inline bool fills_storage(const at::Tensor& t) {
  const auto* impl = t.unsafeGetTensorImpl();
  return impl->storage_offset() == 0 && static_cast<size_t>(impl->numel()) * impl->itemsize() == storage_of(t).nbytes();
}

class LazyTensor final : public c10::TensorImpl, public Pooled<LazyTensor, 256> {
 public:
  using Pooled<LazyTensor, 256>::operator new;
  using Pooled<LazyTensor, 256>::operator delete;
  // A view is an inference tensor if its base is one, whatever the mode; any other tensor if made in inference mode.
  LazyTensor(c10::Storage&& storage, caffe2::TypeMeta type, c10::DispatchKeySet meaning = {},
             bool inference = c10::InferenceMode::is_enabled());
  ~LazyTensor() override;
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                         bool allow_metadata_change) const override;
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                         bool allow_metadata_change) const override;
  // Fresh and row-major; cheaper than set_sizes_contiguous.
  void set_row_major(std::span<const int64_t> shape);

 private:
  template <class V>
  c10::intrusive_ptr<TensorImpl> copy(V&& version, bool allow_metadata_change) const;
};

c10::intrusive_ptr<c10::StorageImpl> make_storage(CellRef cell, size_t bytes);
// A row-major tensor over a new storage that holds `cell`.
at::Tensor make_tensor(CellRef cell, c10::ScalarType type);
at::Tensor make_tensor(CellRef cell, c10::ScalarType type, at::IntArrayRef sizes, at::IntArrayRef strides);
// A row-major tensor over a new storage that shows this.
at::Tensor make_tensor(Prefix prefix, c10::ScalarType type);
// Another window on the storage of `base`.
at::Tensor make_view(const at::Tensor& base, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset);
// A tensor with no content yet, on storage of `bytes` bytes.
at::Tensor make_empty(at::IntArrayRef sizes, at::IntArrayRef strides, c10::ScalarType type);
// A cell that holds this buffer already.
CellRef make_ready(jit::Buffer buffer, ir::Type type);
CellRef make_uninitialized(ir::Type type);

}  // namespace lazuli::lazy
