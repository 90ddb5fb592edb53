// A cell is what a storage currently holds: a value that the trace will compute, or a buffer that it has computed.
// Whoever may still read the value (storages, the trace, saved values) holds a reference to its cell; when a trace
// ends, a cell that only the trace holds is dead and is not computed, unless it would be missed (Trace::live).
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include "ir/type.h"
#include "jit/run/executable.h"
#include "lazy/support/block_pool.h"
#include "lazy/support/failure.h"
#include "lazy/support/reference_count.h"

namespace lazuli::lazy {

struct Cell;

class CellRef {
 public:
  CellRef() = default;
  explicit CellRef(Cell* adopted) : cell_(adopted) {}
  static CellRef share(Cell* cell);
  // A second reference to what only the caller can reach; cheaper.
  static CellRef share_first(Cell* cell);
  CellRef(const CellRef& o);
  CellRef(CellRef&& o) noexcept : cell_(std::exchange(o.cell_, nullptr)) {}
  CellRef& operator=(CellRef o) noexcept {
    std::swap(cell_, o.cell_);
    return *this;
  }
  ~CellRef();
  Cell* get() const { return cell_; }
  Cell* operator->() const { return cell_; }
  Cell& operator*() const { return *cell_; }
  explicit operator bool() const { return cell_ != nullptr; }

 private:
  Cell* cell_ = nullptr;
};

struct Cell final : Pooled<Cell, 192> {
  enum class State : uint8_t {
    Uninitialized,  // storage from empty(): no content yet
    Pending,        // to be computed by the trace `epoch`, as its value `id`
    Ready,          // `buffer` holds it, dense row-major, once the Runner is done, or `channels_last` does;
                    // `epoch`/`id` say which value of the current trace it is, if any
    Failed,         // its computation failed; `failure` says why
  };
  std::atomic<uint32_t> references{1};
  std::atomic<State> state{State::Uninitialized};  // the Runner's thread sets Failed
  bool is_read_outside = false;                    // of traces, as far as is known
  bool is_appended_to = false;                     // memory of a prefix (prefix.h), behind which nobody reads it
  uint32_t id = 0;
  uint64_t epoch = 0;  // 0 = in no trace
  // The Runner's job that fills `buffer`; 0: it is filled; kUnknownJob: on a GPU, by other work in its stream.
  static constexpr uint64_t kUnknownJob = UINT64_MAX;
  uint64_t job = kUnknownJob;
  ir::Type type;
  jit::Buffer buffer;
  std::shared_ptr<const Failure> failure;
  // Of a ready one without a buffer: what holds it, an image [N, C, H, W], as [N, H, W, C] (lazy/run/kept_images.h).
  CellRef channels_last;
};

// The one that has the memory, or why there is none.
inline const Cell& holder_of(const Cell& c) { return c.channels_last ? *c.channels_last : c; }

inline CellRef CellRef::share(Cell* cell) {
  cell->references.fetch_add(1, std::memory_order_relaxed);
  return CellRef(cell);
}
inline CellRef CellRef::share_first(Cell* cell) {
  cell->references.store(2, std::memory_order_relaxed);
  return CellRef(cell);
}
inline CellRef::CellRef(const CellRef& o) : cell_(o.cell_) {
  if (cell_) cell_->references.fetch_add(1, std::memory_order_relaxed);
}
inline CellRef::~CellRef() {
  if (cell_ && give_up_reference(cell_->references)) delete cell_;
}

}  // namespace lazuli::lazy
