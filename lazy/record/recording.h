// Recording ops. A Recording is a short scope in which one op's applications are appended to the device's trace; it
// holds the trace's lock, is a Builder (so decompositions and derivatives can record through it), and translates
// between tensors and values.
#pragma once
#include <thread>
#include "ir/builder.h"
#include "lazy/record/block.h"
#include "lazy/record/repetition.h"
#include "lazy/support/convert.h"
#include "lazy/support/host_time.h"
#include "lazy/support/mutex.h"
#include "lazy/trace/segment.h"
#include "lazy/trace/storage.h"
#include "lazy/trace/trace.h"

namespace lazuli::lazy {

struct Recorder {
  Mutex mutex{Rank::Recorder};  // recursive: an external call may itself record (a custom op written in Python)
  Trace trace{1};
  uint64_t next_epoch = 2;
  Repetition repetition;
  const std::thread::id first_thread = std::this_thread::get_id();  // that recorded; usually the user's main one
  // A thread that wants what it records for itself (none: nobody does), and whether another one recorded meanwhile.
  std::thread::id alone{};
  bool is_disturbed = false;
};
inline Recorder& recorder() {
  static auto* r = new Recorder;  // outlives every thread
  return *r;
}

// Says that what is recorded next is something of its own (ir/parts.h).
inline void begin_part() {
  std::lock_guard lock(recorder().mutex);
  recorder().trace.begin_part();
}

class Tape;

class Recording final : public ir::Builder {
 public:
  Recording();
  ~Recording() override;
  Recording(const Recording&) = delete;

  using Builder::emit;
  ir::Value emit(ir::Op op, std::span<const ir::Value> inputs, ir::Attrs attrs,
                 std::span<const ir::Type> types) override;
  const ir::Type& type(ir::Value v) const override { return trace_.cell(id(v))->type; }
  // The hot path: one result whose type the caller knows.
  ir::Value emit_typed(ir::Op op, std::span<const ir::Value> inputs, const ir::Type& type);
  ir::Value emit_typed(ir::Op op, std::initializer_list<ir::Value> inputs, const ir::Type& type) {
    return emit_typed(op, std::span(inputs.begin(), inputs.size()), type);
  }

  // What the tensor reads now, with its logical shape; with `order`, its dimensions permuted so.
  ir::Value value(const at::Tensor& t);
  ir::Value value(const at::Tensor& t, const Order& order);
  // The same of a tensor that is row-major: the hot path.
  ir::Value row_major_value(const at::Tensor& t);
  // The whole storage, as it lies in memory.
  ir::Value storage_value(LazyStorage& storage);
  ir::Value storage_value(const at::Tensor& t) { return storage_value(storage_of(t)); }
  // The whole storage as a flat list of elements of this type.
  ir::Value flat_value(const at::Tensor& t, ir::DType dtype);
  // A tensor to read in its place: where it is a window that moves from trace to trace, one with that memory alone.
  at::Tensor settled(const at::Tensor& t);
  // What a cell holds.
  ir::Value cell_value(Cell& cell);
  Cell& cell(ir::Value v) const { return *trace_.cell(id(v)); }
  // A run-time number: never part of the trace's identity.
  ir::Value number(const c10::Scalar& s, ir::DType dtype) { return number_bits(scalar_bits(s, dtype), dtype); }
  ir::Value number_bits(int64_t bits, ir::DType dtype);

  // A fresh tensor that holds v. With `order`, v's dimensions are in memory order and the tensor undoes that.
  at::Tensor tensor(ir::Value v, c10::ScalarType type);
  at::Tensor tensor(ir::Value v, c10::ScalarType type, const Order& order);
  // A fresh tensor over the memory v, with the given geometry.
  at::Tensor tensor(ir::Value v, c10::ScalarType type, at::IntArrayRef sizes, at::IntArrayRef strides);
  // Makes the tensor's window hold v, which has its shape and type. Throws torch's error where several of its elements
  // lie in one place.
  void write(const at::Tensor& t, ir::Value v);
  // The same, where all such elements are to hold the same.
  void write_all(const at::Tensor& t, ir::Value v);
  void rebind_storage(LazyStorage& storage, ir::Value v) { storage.rebind(CellRef::share(trace_.cell(id(v)))); }
  void rebind_storage(const at::Tensor& t, ir::Value v) { rebind_storage(storage_of(t), v); }

  const Trace& trace() const { return trace_; }
  void note(Derivative d) { trace_.derivatives.push_back(std::move(d)); }
  // Records again what was recorded at an equal place.
  void repeat(const Trace::Excerpt& e) { trace_.append(e); }
  // Records a captured graph; its own values are numbered from the result on. The block has to outlive the recording.
  ValueId repeat(Block& block, std::span<const ValueId> inputs, std::span<const int64_t> numbers) {
    recorder().repetition.begins_block(&block, trace_);
    block_begin_ = trace_.size(), block_ = &block;
    return block.append(trace_, inputs, numbers);
  }
  ir::Value numbered(ValueId id) const { return {id, 0}; }
  ValueId id(ir::Value v) const { return v ? v.node + v.result : kAbsent; }
  // Says that these two numbers are where `count` random numbers were drawn.
  void note_draw(ir::Value seed, ir::Value offset, int64_t count, bool is_default) {
    trace_.draws.push_back({id(seed), id(offset), count, is_default});
  }

 private:
  // How many bytes at a storage's end are no whole element of this type.
  static int64_t odd_bytes(const LazyStorage& storage, ir::DType dtype);
  ir::Value bitcast(ir::Value v, ir::DType dtype, int64_t n);
  ir::Value bytes(ir::Value v, int64_t begin, int64_t end);
  // One more reference to what holds v. What only the trace holds is ours alone while we hold its lock.
  CellRef share(ir::Value v) {
    Cell* cell = trace_.cell(id(v));
    return cell->references.load(std::memory_order_relaxed) == 1 ? CellRef::share_first(cell) : CellRef::share(cell);
  }
  // What a tensor that is not the whole of its storage shows of it.
  ir::Value window(const at::Tensor& t);
  // The memory that it shows, row-major or flat, if it moves from trace to trace; null otherwise.
  Cell* moving_window(const at::Tensor& t);
  HostTimer timer_{HostAccount::Recording};
  Trace& trace_;
  Tape* const tape_;  // this thread's, which is told what is read; null: none
  size_t start_;
  const Block* block_ = nullptr;  // that was recorded last, from this entry on
  size_t block_begin_ = 0;
  std::unique_lock<Mutex> lock_;
};

// The memory order of a dense tensor without overlap; empty when row-major. Returns false when it is not dense.
bool memory_order(at::IntArrayRef sizes, at::IntArrayRef strides, Order& order);

}  // namespace lazuli::lazy
