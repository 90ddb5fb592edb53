#include "lazy/record/appending.h"

#include <algorithm>
#include <c10/core/GradMode.h>
#include "lazy/record/recording.h"
#include "lazy/record/tape.h"
#include "lazy/support/config.h"
#include "lazy/support/metrics.h"

namespace lazuli::lazy {
namespace {

constexpr size_t kLeastBytes = size_t{32} << 10;  // of a cache that is worth it
constexpr int64_t kLeastShare = 4;                // of the cache what is new is at most this part
constexpr int kGrownBefore = 2;                   // times, before there is room
// How much room there is: for so many times what is new, or this part of the cache. So each element is copied about
// five times, however long the cache becomes.
constexpr int64_t kRoomTimes = 8, kRoomShare = 4;

// Derivatives, captured graphs and saved values keep cells, which a prefix has none of.
bool keeps_cells() { return c10::GradMode::is_enabled() || Tape::current() || recorder().alone != std::thread::id{}; }

bool always() { return config().append_in_place == "always"; }

// Only prefixes hold it.
CellRef memory_of(Recording& r, ir::Value memory) {
  CellRef cell = CellRef::share(&r.cell(memory));
  cell->is_appended_to = true;
  return cell;
}

// The same memory, with `more` behind what `cache` shows of it.
Prefix appended(Recording& r, const Prefix& cache, const at::Tensor& more) {
  Prefix out{{}, cache.sizes, cache.dim, cache.length + more.size(cache.dim)};
  const ir::Dims strides = ir::contiguous_strides(cache.sizes);
  ir::Attrs attrs;
  attrs.add(strides).add(cache.length * strides[cache.dim]);
  const ir::Value memory =
      r.emit(ir::Op::as_strided_scatter, {r.cell_value(*cache.memory), r.value(more)}, std::move(attrs));
  out.memory = memory_of(r, memory);
  return out;
}

// New memory with room, with both in it.
Prefix with_room(Recording& r, const at::Tensor& cache, const at::Tensor& more, int64_t dim) {
  const int64_t added = more.size(dim), length = cache.size(dim) + added;
  const int64_t room = std::max(kRoomTimes * added, length / kRoomShare);
  Prefix out{{}, to_dims(cache.sizes()), dim, length};
  out.sizes[dim] = length + room;
  ir::Dims before(cache.dim(), 0), behind(cache.dim(), 0);
  behind[dim] = room;
  const ir::DType dtype = to_ir(cache.scalar_type());
  const ir::Value both = r.emit(ir::Op::cat, {r.value(cache), r.value(more)}, {{dim}});
  const ir::Value padded = r.emit(ir::Op::pad, {both, r.constant(0, dtype)}, ir::Attrs().add(before).add(behind));
  const ir::Value memory = r.reshape(padded, ir::Dims{ir::product(out.sizes)});
  out.memory = memory_of(r, memory);
  return out;
}

// Whether there is room for `more` behind what it shows, and some is left: what a program writes to a cache is written
// to a smaller value than the memory, so that nothing but an append takes the memory's place
// (Executable::only_scatters_to).
bool has_room(const Prefix* p, const at::Tensor& cache, const at::Tensor& more, int64_t dim) {
  return p && p->dim == dim && ir::equal(p->type().shape, cache.sizes()) && p->length + more.size(dim) < p->sizes[dim];
}

// The value of a prefix in the trace: a view of its memory, recorded once.
Cell* value_now(Prefix& p) {
  Trace& trace = recorder().trace;
  if (p.epoch == trace.epoch()) return p.cell;
  if (p.memory->state == Cell::State::Failed) p.memory->failure->raise();
  const ValueId memory = trace.use(p.memory.get());
  const ir::Type type = p.type();
  ir::Attrs attrs;
  attrs.add(type.shape).add(ir::contiguous_strides(p.sizes)).add(int64_t{0});
  const ValueId id = trace.append(ir::Op::as_strided, {&memory, 1}, ir::numbers(attrs.flat()), 1);
  trace.define(id, type);
  p.epoch = trace.epoch();
  return p.cell = trace.cell(id);
}

}  // namespace

bool may_grow(const at::Tensor& cache, const at::Tensor& more, int64_t dim) {
  const auto plain = [](const at::Tensor& t) { return !t.is_conj() && !t.is_neg() && !t._is_zerotensor(); };
  const bool is_worth_it =
      always() || (cache.nbytes() >= kLeastBytes && more.size(dim) <= cache.size(dim) / kLeastShare);
  return !keeps_cells() && is_worth_it && config().append_in_place != "never" && more.numel() > 0 &&
         cache.numel() > 0 && cache.scalar_type() == more.scalar_type() && ir::is_native(to_ir(cache.scalar_type())) &&
         plain(cache) && plain(more) && cache.is_contiguous() && fills_storage(cache);
}

at::Tensor append_in_place(const at::Tensor& cache, const at::Tensor& more, int64_t dim) {
  Recording r;
  LazyStorage& storage = storage_of(cache);
  const Prefix* before = storage.prefix();
  if (has_room(before, cache, more, dim)) {
    ++metrics().appends_in_place;
    return make_tensor(appended(r, *before, more), cache.scalar_type());
  }
  const Growth& growth = storage.notes().growth;
  if (!before && !always() && (growth.dim != dim || growth.times < kGrownBefore)) return {};
  return make_tensor(with_room(r, cache, more, dim), cache.scalar_type());
}

void note_growth(const at::Tensor& cache, int64_t dim, const at::Tensor& grown) {
  std::lock_guard lock(recorder().mutex);
  const Growth& before = storage_of(cache).notes().growth;
  const uint64_t epoch = recorder().trace.epoch();
  const int times = before.dim == dim ? before.times : 0;
  storage_of(grown).notes().growth = {dim, times + (before.epoch != epoch), epoch};
}

Cell* LazyStorage::prefix_cell() {
  std::lock_guard lock(recorder().mutex);
  if (!keeps_cells()) return value_now(*prefix_);
  settle();
  return cell_.get();
}

void LazyStorage::settle() {
  std::lock_guard lock(recorder().mutex);
  cell_ = CellRef::share(value_now(*prefix_));
  prefix_.reset();
}

}  // namespace lazuli::lazy
