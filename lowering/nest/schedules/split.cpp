#include "lowering/nest/schedules/split.h"
#include <algorithm>
#include <map>
#include "lowering/nest/schedules/launch.h"

namespace lazuli::lowering {
namespace {

constexpr int64_t kWorthwhile = 1 << 16;  // points; below, one thread is done before others wake
constexpr int64_t kChunksPerThread = 2;
constexpr int64_t kVectors = 64;  // elements: a chunk of the vector dimension is a whole number of vectors

ir::Size points(const Loops& l) { return ir::product(l.sizes); }

ir::Size kept_numel(const Loops& l) { return ir::product({l.sizes.data(), l.sizes.size() - l.nest.reduced}); }

ir::Size parallel_units(const Loops& l) {
  if (l.nest.schedule == Schedule::Row) return kept_numel(l);
  const ir::Size lanes = l.sizes[l.nest.vector_dim()];
  return kept_numel(l) / max(lanes, 1) * ((lanes + l.block - 1) / l.block);
}

bool is_argument(Reduce r) { return r == Reduce::ArgMax || r == Reduce::ArgMin; }

bool uses_position(const LoopNest& nest, uint32_t dim) {
  return std::any_of(nest.insts.begin(), nest.insts.end(),
                     [&](const Inst& i) { return i.code == Code::Position && i.slot == dim; });
}

class Splitter {
 public:
  Splitter(const Loops& loops, SplitReduction& out) : from_(loops), out_(out) {
    for (uint16_t i = 0; i < loops.nest.insts.size(); ++i)
      if (loops.nest.insts[i].code == Code::Reduce) reduces_.push_back(i);
  }

  void run(uint32_t dim, ir::Size chunk_size, int threads) {
    out_.chunk_dim = dim;
    out_.chunk_size = chunk_size;
    out_.chunks = (from_.sizes[dim] + chunk_size - 1) / chunk_size;
    write_partial();
    write_combine();
    choose_launch(out_.combine, threads);
  }

 private:
  // Stage 0 as it is; then each accumulator is stored.
  void write_partial() {
    Loops& p = out_.partial = from_;
    p.sizes[out_.chunk_dim] = out_.chunk_size;
    std::erase_if(p.nest.insts, [](const Inst& i) { return i.stage > 0; });
    drop_unused_accesses(p);
    for (uint16_t r : reduces_) {
      BoundAccess to = partial_access(r);
      ir::Size stride = 1;
      for (size_t d = from_.sizes.size() - from_.nest.reduced; d-- > 0; stride *= from_.sizes[d])
        to.strides[d] = stride;
      const DType type = from_.nest.insts[r].dtype;
      p.nest.insts.push_back({.code = Code::Store,
                              .dtype = type,
                              .stage = 1,
                              .row = true,
                              .slot = static_cast<uint16_t>(p.accesses.size()),
                              .args = {r, 0, 0}});
      p.nest.accesses.push_back({type, stride_class(to.strides[p.nest.vector_dim()]), true, true, false});
      p.accesses.push_back(std::move(to));
    }
  }

  // Over [kept..., chunks]: the partial results reduced once more, then stage 1 as it was.
  void write_combine() {
    Loops& c = out_.combine;
    const uint32_t kept = from_.nest.rank - from_.nest.reduced;
    c.sizes.assign(from_.sizes.data(), kept);
    c.sizes.push_back(out_.chunks);
    c.nest.schedule = Schedule::Column;
    c.nest.rank = static_cast<uint8_t>(kept + 1);
    c.nest.reduced = 1;
    c.nest.stages = 2;
    c.params = from_.params;
    c.nest.params = from_.nest.params;
    c.checks = from_.checks;
    c.nest.checks = from_.nest.checks;
    const ir::Size points = kept_numel(from_);
    for (uint16_t r : reduces_) {
      BoundAccess at = partial_access(r);
      at.strides.resize(kept + 1);
      ir::Size stride = 1;
      for (uint32_t d = kept; d-- > 0; stride *= from_.sizes[d]) at.strides[d] = stride;
      at.strides[kept] = points;
      const Inst& old = from_.nest.insts[r];
      const auto load =
          push({.code = Code::Load, .dtype = old.dtype, .slot = static_cast<uint16_t>(c.accesses.size())});
      c.nest.accesses.push_back({old.dtype, stride_class(at.strides[c.nest.vector_dim()]), false, false, false});
      c.accesses.push_back(std::move(at));
      to_[r] = push({.code = Code::Reduce, .reduce = old.reduce, .dtype = old.dtype, .args = {load, 0, 0}});
    }
    for (uint16_t i = 0; i < from_.nest.insts.size(); ++i)
      if (from_.nest.insts[i].stage == 1) move(i);
  }

  // Instruction i, and the row instructions of stage 0 that it reads, in stage 1 of the combining kernel.
  uint16_t move(uint16_t i) {
    if (auto it = to_.find(i); it != to_.end()) return it->second;
    Inst inst = from_.nest.insts[i];
    for (int a = 0; a < operand_count(from_.nest, inst); ++a) inst.args[a] = move(inst.args[a]);
    if (inst.code == Code::Load || inst.code == Code::Store) inst.slot = move_access(inst.slot);
    inst.stage = 1;
    inst.row = true;
    return to_[i] = push(inst);
  }

  uint16_t move_access(uint16_t a) {
    if (auto it = access_to_.find(a); it != access_to_.end()) return it->second;
    Loops& c = out_.combine;
    BoundAccess b = from_.accesses[a];
    b.strides.resize(c.nest.rank - 1u);
    b.strides.push_back(0);
    if (from_.sizes[c.nest.vector_dim()] == 1) b.strides[c.nest.vector_dim()] = 1;
    Access access = from_.nest.accesses[a];
    access.row = true;
    access.stride = stride_class(b.strides[c.nest.vector_dim()]);
    c.nest.accesses.push_back(access);
    c.accesses.push_back(std::move(b));
    return access_to_[a] = static_cast<uint16_t>(c.accesses.size() - 1);
  }

  uint16_t push(Inst i) {
    out_.combine.nest.insts.push_back(i);
    return static_cast<uint16_t>(out_.combine.nest.insts.size() - 1);
  }

  BoundAccess partial_access(uint16_t reduce) {
    const ir::Size item = ir::item_size(from_.nest.insts[reduce].dtype);
    const ir::Size bytes = (kept_numel(from_) * out_.chunks * item + 63) / 64 * 64;
    auto [it, fresh] = partial_at_.try_emplace(reduce, out_.partial_bytes);
    if (fresh) out_.partial_bytes += bytes;
    BoundAccess a;
    a.partial = true;
    a.offset = it->second / item;
    a.strides.resize(from_.nest.rank, 0);
    return a;
  }

  void drop_unused_accesses(Loops& l) {
    std::vector<int32_t> to(l.accesses.size(), -1);
    Loops kept = l;
    kept.accesses.clear();
    kept.nest.accesses.clear();
    for (Inst& i : kept.nest.insts) {
      if (i.code != Code::Load && i.code != Code::Store) continue;
      if (to[i.slot] < 0) {
        to[i.slot] = static_cast<int32_t>(kept.accesses.size());
        kept.accesses.push_back(l.accesses[i.slot]);
        kept.nest.accesses.push_back(l.nest.accesses[i.slot]);
      }
      i.slot = static_cast<uint16_t>(to[i.slot]);
    }
    l = std::move(kept);
  }

  using DType = ir::DType;
  const Loops& from_;
  SplitReduction& out_;
  std::vector<uint16_t> reduces_;
  std::map<uint16_t, uint16_t> to_, access_to_;
  std::map<uint16_t, ir::Size> partial_at_;
};

}  // namespace

// One walk over the elements, then row instructions alone.
bool walks_once(const LoopNest& nest) {
  return nest.stages == 2 && std::all_of(nest.insts.begin(), nest.insts.end(), [](const Inst& i) {
           return (i.stage == 0 || i.row) && !(i.code == Code::Reduce && is_argument(i.reduce)) &&
                  !(i.code == Code::Store && i.row && i.stage == 0);
         });
}

SplitReduction cut(const Loops& loops, uint32_t dim, ir::Size chunk_size, int threads) {
  SplitReduction out;
  Splitter(loops, out).run(dim, chunk_size, threads);
  return out;
}

std::optional<SplitReduction> split_reduction(const Loops& loops, int threads) {
  const LoopNest& nest = loops.nest;
  if (threads <= 1 || nest.reduced == 0 || points(loops) < kWorthwhile || parallel_units(loops) >= 2 * threads)
    return {};
  if (!walks_once(nest)) return {};
  // The longest reduced dimension.
  uint32_t dim = nest.rank - nest.reduced;
  for (uint32_t d = dim; d < nest.rank; ++d)
    if (loops.sizes[d] > loops.sizes[dim]) dim = d;
  const ir::Size chunks = kChunksPerThread * threads;
  ir::Size chunk = (loops.sizes[dim] + chunks - 1) / chunks;
  if (dim == nest.vector_dim()) chunk = (chunk + kVectors - 1) / kVectors * kVectors;
  if (uses_position(nest, dim) || chunk >= loops.sizes[dim]) return {};
  return cut(loops, dim, chunk, threads);
}

}  // namespace lazuli::lowering
