#include "lazy/record/recording.h"

#include <numeric>
#include <ATen/MemoryOverlap.h>
#include <c10/util/SmallVector.h>
#include "ir/error.h"
#include "ir/infer.h"
#include "lazy/memory/backing.h"
#include "lazy/record/tape.h"
#include "lazy/run/run_ahead.h"
#include "lazy/run/sync.h"
#include "lazy/support/config.h"
#include "lazy/support/metrics.h"
#include "lazy/support/source.h"

namespace lazuli::lazy {
namespace {

const Order kRowMajor;

}  // namespace

Recording::Recording() : trace_(recorder().trace), tape_(Tape::current()), lock_(recorder().mutex) {
  settle_after_fork();
  cut_if_due();
  RunAhead::get().look(trace_);
  start_ = trace_.size();
  Recorder& r = recorder();
  if (r.alone != std::thread::id{} && r.alone != std::this_thread::get_id()) [[unlikely]]
    r.is_disturbed = true;
}

Recording::~Recording() {
  size_t end = trace_.size();
  if (tape_) tape_->recorded(trace_, start_, end);
  uint64_t epoch = trace_.epoch();
  ++metrics().ops_recorded;
  bool learning = end > start_ && needs_lines();
  lock_.unlock();
  if (!learning) return;
  uint32_t line = current_line();  // takes Python's lock, so ours must be free
  std::lock_guard lock(recorder().mutex);
  if (trace_.epoch() != epoch) return;
  if (trace_.lines.size() < end) trace_.lines.resize(end, line);
  for (size_t i = start_; i < end; ++i) trace_.lines[i] = line;
  if (block_) std::ranges::copy(block_->lines(), trace_.lines.begin() + static_cast<ptrdiff_t>(block_begin_));
}

ir::Value Recording::emit(ir::Op op, std::span<const ir::Value> inputs, ir::Attrs attrs,
                          std::span<const ir::Type> types) {
  const ir::OpInfo& row = ir::info(op);
  c10::SmallVector<ir::Type, 2> inferred;
  if (types.empty()) {
    c10::SmallVector<const ir::Type*, 8> in;
    for (ir::Value v : inputs) in.push_back(v ? &type(v) : nullptr);
    inferred.resize(row.results);
    ir::infer(op, {in.data(), in.size()}, attrs, {inferred.data(), inferred.size()});
    types = {inferred.data(), inferred.size()};
  }
  c10::SmallVector<ValueId, 8> ids;
  for (ir::Value v : inputs) ids.push_back(id(v));
  std::span<const int64_t> flat = ir::numbers(attrs.flat());
  // Leaves are typed by the graph, so their type is part of what identifies the trace.
  ir::Dims typed;
  if (ir::is_leaf(op)) {
    typed = ir::Dims(flat);
    typed.push_back(static_cast<int64_t>(types[0].dtype));
    typed.append(types[0].shape);
    flat = typed;
  }
  ValueId first = trace_.append(op, {ids.data(), ids.size()}, flat, static_cast<uint16_t>(types.size()));
  for (size_t i = 0; i < types.size(); ++i) trace_.define(first + i, types[i]);
  return {first, 0};
}

ir::Value Recording::emit_typed(ir::Op op, std::span<const ir::Value> inputs, const ir::Type& type) {
  ValueId ids[8];
  size_t n = 0;
  for (ir::Value v : inputs) ids[n++] = id(v);
  return {trace_.append(op, {ids, n}, type), 0};
}

ir::Value Recording::cell_value(Cell& cell) {
  if (const Cell& c = holder_of(cell); c.state == Cell::State::Failed) c.failure->raise();
  return {trace_.use(&cell), 0};
}

ir::Value Recording::storage_value(LazyStorage& storage) { return cell_value(*storage.cell()); }

ir::Value Recording::flat_value(const at::Tensor& t, ir::DType dtype) {
  LazyStorage& storage = storage_of(t);
  ir::Value v = storage_value(storage);
  const int64_t n = static_cast<int64_t>(storage.nbytes()) / ir::item_size(dtype);
  if (this->dtype(v) == dtype) return reshape(v, ir::Dims{n});
  if (odd_bytes(storage, dtype)) v = bytes(v, 0, n * ir::item_size(dtype));
  return bitcast(v, dtype, n);
}

int64_t Recording::odd_bytes(const LazyStorage& storage, ir::DType dtype) {
  return static_cast<int64_t>(storage.nbytes()) % ir::item_size(dtype);
}

ir::Value Recording::bitcast(ir::Value v, ir::DType dtype, int64_t n) {
  return emit(ir::Op::bitcast, {v}, {{static_cast<int64_t>(dtype)}, {n}});
}

ir::Value Recording::bytes(ir::Value v, int64_t begin, int64_t end) {
  const ir::Value all = bitcast(v, ir::DType::U8, type(v).bytes());
  return emit(ir::Op::slice, {all}, {{begin}, {end - begin}, {1}});
}

Cell* Recording::moving_window(const at::Tensor& t) {
  auto* impl = t.unsafeGetTensorImpl();
  LazyStorage& storage = storage_of(t);
  const Cell& whole = *storage.cell();
  const ir::DType dtype = to_ir(t.scalar_type());
  // Where work overlaps the host, a buffer may come to be only when the Runner gets there; and a GPU's kernels rely on
  // where buffers begin.
  const bool has_buffer = whole.state == Cell::State::Ready && !whole.channels_last;
  if (!has_buffer || backing().overlaps_host || whole.type.dtype != dtype || impl->numel() == 0) return nullptr;
  int64_t extent = 1;
  for (int64_t d = 0; d < impl->dim(); ++d) extent += (impl->size(d) - 1) * impl->stride(d);
  if (extent == whole.type.numel() || !storage.notes().windows.note(trace_.epoch(), {impl->storage_offset(), extent}))
    return nullptr;
  return &trace_.window(whole, impl->storage_offset(),
                        {dtype, impl->is_contiguous() ? to_dims(impl->sizes()) : ir::Dims{extent}});
}

at::Tensor Recording::settled(const at::Tensor& t) {
  Cell* alone = moving_window(t);
  return alone ? make_tensor(CellRef::share(alone), t.scalar_type(), t.sizes(), t.strides()) : t;
}

ir::Value Recording::window(const at::Tensor& t) {
  auto* impl = t.unsafeGetTensorImpl();
  const ir::DType dtype = to_ir(t.scalar_type());
  TORCH_CHECK(ir::is_native(dtype), "lazuli: no kernel computes on ", t.scalar_type());
  const ir::Dims shape = to_dims(impl->sizes());
  const auto strided = [&](ir::Value memory, int64_t offset) {
    ir::Attrs attrs;
    attrs.add(shape).add(to_dims(impl->strides())).add(offset);
    return emit(ir::Op::as_strided, {memory}, attrs);
  };
  if (Cell* alone = moving_window(t))
    return impl->is_contiguous() ? cell_value(*alone) : strided(cell_value(*alone), 0);
  Order order;
  const bool dense = impl->storage_offset() == 0 && memory_order(impl->sizes(), impl->strides(), order);
  ir::Value base = storage_value(t);
  if (dense && this->dtype(base) == dtype && this->type(base).numel() == impl->numel()) {
    if (order.empty()) return reshape(base, shape);
    ir::Dims permuted, inverse(order.size(), 0);
    for (size_t i = 0; i < order.size(); ++i)
      permuted.push_back(shape[order[i]]), inverse[order[i]] = static_cast<int64_t>(i);
    return permute(reshape(base, permuted), inverse);
  }
  base = flat_value(t, dtype);
  if (dense && order.empty() && this->type(base).numel() == impl->numel()) return reshape(base, shape);
  return strided(base, impl->storage_offset());
}

ir::Value Recording::value(const at::Tensor& t) {
  if (t.unsafeGetTensorImpl()->is_contiguous()) return row_major_value(t);
  ir::Value v = window(t);
  return tape_ ? tape_->read(*this, t, v, kRowMajor) : v;
}

ir::Value Recording::row_major_value(const at::Tensor& t) {
  auto* impl = t.unsafeGetTensorImpl();
  Cell& c = *storage_of(t).cell();
  const bool whole = impl->storage_offset() == 0 && c.type.dtype == to_ir(impl->dtype().toScalarType()) &&
                     ir::equal(c.type.shape, impl->sizes());
  ir::Value v = whole ? cell_value(c) : window(t);
  return tape_ ? tape_->read(*this, t, v, kRowMajor) : v;
}

ir::Value Recording::value(const at::Tensor& t, const Order& order) {
  if (order.empty()) return value(t);
  auto* impl = t.unsafeGetTensorImpl();
  Cell& c = *storage_of(t).cell();
  ir::Dims memory;
  for (int64_t d : order) memory.push_back(impl->size(d));
  Order own;
  if (c.type.dtype == to_ir(t.scalar_type()) && c.type.shape == memory && impl->storage_offset() == 0 &&
      memory_order(impl->sizes(), impl->strides(), own) && own == order) {
    ir::Value v = cell_value(c);
    return tape_ ? tape_->read(*this, t, v, order) : v;
  }
  return permute(value(t), order);
}

ir::Value Recording::number_bits(int64_t bits, ir::DType dtype) {
  ValueId v = trace_.scalar(bits, dtype);
  trace_.define(v, ir::Type{dtype, {}});
  return {v, 0};
}

at::Tensor Recording::tensor(ir::Value v, c10::ScalarType type) {
  at::Tensor t = make_tensor(share(v), type);
  if (tape_) tape_->made(*this, t, v, kRowMajor);
  return t;
}

at::Tensor Recording::tensor(ir::Value v, c10::ScalarType type, const Order& order) {
  if (order.empty()) return tensor(v, type);
  const ir::Dims& memory = this->type(v).shape;
  ir::Dims strides = ir::contiguous_strides(memory), logical_sizes(order.size(), 0), logical_strides(order.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) {
    logical_sizes[order[i]] = memory[i];
    logical_strides[order[i]] = strides[i];
  }
  at::Tensor t = tensor(v, type, to_ref(logical_sizes), to_ref(logical_strides));
  if (tape_) tape_->made(*this, t, v, order);
  return t;
}

at::Tensor Recording::tensor(ir::Value v, c10::ScalarType type, at::IntArrayRef sizes, at::IntArrayRef strides) {
  return make_tensor(share(v), type, sizes, strides);
}

void Recording::write(const at::Tensor& t, ir::Value v) {
  at::assert_no_internal_overlap(t);
  write_all(t, v);
}

void Recording::write_all(const at::Tensor& t, ir::Value v) {
  auto* impl = t.unsafeGetTensorImpl();
  ir::DType dtype = to_ir(t.scalar_type());
  LAZULI_CHECK(this->dtype(v) == dtype, "a write must have the tensor's type");
  LAZULI_CHECK(ir::equal(shape(v), impl->sizes()), "a write must have the tensor's shape");
  Order order;
  if (fills_storage(t) && memory_order(impl->sizes(), impl->strides(), order)) {
    rebind_storage(t, order.empty() ? v : permute(v, order));
    return;
  }
  if (impl->numel() == 0) return;
  ir::Attrs attrs;
  attrs.add(to_dims(impl->strides())).add(impl->storage_offset());
  LazyStorage& storage = storage_of(t);
  ir::Value whole = emit(ir::Op::as_strided_scatter, {flat_value(t, dtype), v}, attrs);
  if (const int64_t odd = odd_bytes(storage, dtype)) {
    const auto all = static_cast<int64_t>(storage.nbytes());
    whole = emit(ir::Op::cat, {bytes(whole, 0, all - odd), bytes(storage_value(storage), all - odd, all)}, {{0}});
  }
  rebind_storage(storage, whole);
}

bool memory_order(at::IntArrayRef sizes, at::IntArrayRef strides, Order& order) {
  order.clear();
  // True when the elements lie one after the other in this order; dimensions of size one have no say.
  auto dense = [&](const Order& dims) {
    int64_t expected = 1;
    for (size_t i = dims.size(); i-- > 0;) {
      int64_t d = dims[i];
      if (sizes[d] != 1 && strides[d] != expected) return false;
      expected *= sizes[d];
    }
    return true;
  };
  if (std::ranges::find(sizes, 0) != sizes.end()) return true;
  Order dims(sizes.size(), 0);
  std::iota(dims.begin(), dims.end(), 0);
  if (dense(dims)) return true;
  std::stable_sort(dims.begin(), dims.end(), [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  if (!dense(dims)) return false;
  order = dims;
  return true;
}

}  // namespace lazuli::lazy
