// Random loop nests whose results do not depend on the order of reductions, so that compiled code and interpreter
// must agree bit for bit: what is summed are small integers, and only primitives with one right answer occur.
#pragma once
#include <bit>
#include <limits>
#include <optional>

#include "tests/lowering/nest_memory.h"

namespace lazuli::testing {

class RandomNest {
 public:
  // What a number out of range converts to is each target's own affair.
  static constexpr bool kConversionsInRange = true;

  explicit RandomNest(uint64_t seed, bool conversions_in_range = false) : in_range_(conversions_in_range), rng_(seed) {
    generate(false);
  }
  struct Tiled {};
  RandomNest(uint64_t seed, Tiled) : in_range_(false), rng_(seed) { generate(true); }
  // Reductions of columns whose bodies compute what nobody reads: heavy ones have loops of their own.
  struct Heavy {};
  RandomNest(uint64_t seed, Heavy) : in_range_(false), heavy_(true), rng_(seed) { generate(false); }
  // Rows of at most so many elements, of which later stages compute again what earlier ones did.
  struct Bounded {
    uint16_t bound;
  };
  RandomNest(uint64_t seed, Bounded rows) : in_range_(false), row_bound_(rows.bound), rng_(seed) { generate(false); }
  const lowering::LoopNest& nest() const { return nest_; }

  // `vector_size`: the vector dimension's; other dimensions are small.
  NestMemory memory(int64_t vector_size) {
    std::vector<int64_t> sizes;
    for (uint32_t d = 0; d < nest_.rank; ++d)
      sizes.push_back(d == nest_.vector_dim() ? vector_size : d == nest_.tile ? below(50) : below(4) + 1);
    if (chance(20) && nest_.reduced && nest_.vector_dim() != nest_.rank - 1u) sizes[nest_.rank - 1] = 0;
    std::vector<Placement> places;
    for (const lowering::Access& a : nest_.accesses) places.push_back(place(a, sizes));
    std::vector<int64_t> params;
    for (bool floating : floating_params_)
      params.push_back(floating ? std::bit_cast<int64_t>(number(ir::DType::F32).f) : below(20) - 8);
    const int64_t blocks[] = {1, 7, 16, 64, 100, 4096};
    NestMemory m(nest_, sizes, blocks[below(6)], std::move(places), std::move(params));
    for (size_t a = 0; a < nest_.accesses.size(); ++a)
      for (int64_t i = 0; i < m.count(a); ++i) m.set(a, i, number(nest_.accesses[a].dtype));
    return m;
  }
  // The same launch on buffers of its own.
  NestMemory copy(const NestMemory& m) {
    std::vector<Placement> places = last_places_;
    const lowering::KernelArgsLayout layout(nest_);
    NestMemory c(nest_, {m.args() + layout.sizes, m.args() + layout.pointers}, m.args()[0], std::move(places),
                 {m.args() + layout.params, m.args() + layout.total});
    c.copy_from(m);
    return c;
  }

 private:
  using DType = ir::DType;
  using Prim = ir::Prim;
  using Code = lowering::Code;
  using Inst = lowering::Inst;
  using VectorStride = lowering::VectorStride;

  int64_t below(int64_t n) { return static_cast<int64_t>(rng_() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  bool row_schedule() const { return nest_.schedule == lowering::Schedule::Row; }

  ir::Number number(DType t) {
    if (!ir::is_floating(t)) {
      if (t == DType::Bool) return {0, below(2)};
      if (chance(10)) return {0, std::numeric_limits<int64_t>::min() >> (64 - 8 * ir::item_size(t))};
      return {0, below(30) - 10};
    }
    const double special[] = {0.0, -0.0, 1e-41, -1e-41, INFINITY, -INFINITY, NAN, 65504, 1e30, -3e38};
    if (chance(10)) return {special[below(10)], 0};
    return {static_cast<double>(below(4001) - 2000) / (chance(50) ? 64 : 999), 0};
  }

  DType memory_type() {
    constexpr DType all[] = {DType::Bool, DType::U8,   DType::I8,  DType::I16, DType::I32, DType::I64,
                             DType::F16,  DType::BF16, DType::F32, DType::F32, DType::F64};
    return narrow_ ? (chance(60) ? DType::F32 : all[below(10)]) : all[below(11)];
  }

  uint16_t emit(Inst x) {
    x.stage = stage_;
    nest_.insts.push_back(x);
    return static_cast<uint16_t>(nest_.insts.size() - 1);
  }
  uint16_t literal(double v, DType t, bool row) {
    return emit({.code = Code::Prim, .prim = Prim::literal, .dtype = t, .row = row, .value = v});
  }
  uint16_t prim(Prim p, DType t, bool row, uint16_t a, uint16_t b = 0, uint16_t c = 0) {
    return emit({.code = Code::Prim, .prim = p, .dtype = t, .row = row, .args = {a, b, c}});
  }
  DType type(uint16_t i) const { return nest_.insts[i].dtype; }
  uint16_t as(uint16_t i, DType t, bool row) {
    if (type(i) == t) return i;
    if (in_range_ && ir::is_floating(type(i)) && !ir::is_floating(t) && t != DType::Bool) i = ranged(i, row);
    return prim(Prim::convert, t, row, i);
  }
  uint16_t ranged(uint16_t i, bool row) {
    const DType t = type(i);
    i = prim(Prim::select, t, row, prim(Prim::eq, DType::Bool, row, i, i), i, literal(0, t, row));
    i = prim(Prim::minimum, t, row, i, literal(100, t, row));
    return prim(Prim::maximum, t, row, i, literal(t == DType::F32 ? -100 : -90, t, row));
  }

  uint16_t access(DType t, bool row, bool store, bool indexed) {
    lowering::Access a{t, VectorStride::One, row, store, indexed};
    if (row && row_schedule())
      a.stride = VectorStride::Zero;
    else if (chance(40))
      a.stride = store || chance(50) ? VectorStride::Any : VectorStride::Zero;
    if (a.stride == VectorStride::Any && !nest_.tiled() && chance(25)) a.stride = VectorStride::Backward;
    if (a.stride == VectorStride::Any && chance(40)) a.stride = VectorStride::Two;
    a.across = nest_.tiled() && a.stride == VectorStride::Any && !indexed && chance(80);
    nest_.accesses.push_back(a);
    return static_cast<uint16_t>(nest_.accesses.size() - 1);
  }
  // The elements beside those of an access, in some cases.
  std::optional<uint16_t> access_after(uint16_t slot) {
    lowering::Access second = nest_.accesses[slot];
    if (second.stride != VectorStride::Two || second.indexed || !chance(60)) return {};
    second.after = slot;
    nest_.accesses.push_back(second);
    return nest_.accesses[slot].before = static_cast<uint16_t>(nest_.accesses.size() - 1);
  }
  uint16_t any_of(const std::vector<uint16_t>& pool) { return pool[static_cast<size_t>(below(pool.size()))]; }

  uint16_t index_of(const std::vector<uint16_t>& pool, bool row) {
    uint16_t i = as(any_of(pool), DType::I64, row);
    return prim(Prim::mod, DType::I64, row, i, literal(kIndices, DType::I64, row));
  }

  uint16_t source(const std::vector<uint16_t>& pool, bool row) {
    const int64_t kind = below(10);
    if (kind == 0) return literal(static_cast<double>(below(17) - 8), ir::compute_type(memory_type()), row);
    if (kind == 1) {
      DType t = chance(50) ? DType::F32 : DType::I32;
      floating_params_.push_back(t == DType::F32);
      return emit({.code = Code::Param, .dtype = t, .row = row, .slot = nest_.params++});
    }
    if (kind == 2) {
      const int64_t dims = row ? nest_.rank - nest_.reduced : nest_.rank;
      if (dims) return emit({.code = Code::Position, .dtype = DType::I64, .row = row, .slot = uint16_t(below(dims))});
    }
    DType t = memory_type();
    const bool indexed = !pool.empty() && chance(20);
    const uint16_t index = indexed ? index_of(pool, row) : 0;
    Inst load{.code = Code::Load, .dtype = ir::compute_type(t), .row = row, .args = {index}};
    load.slot = access(t, row, false, indexed);
    if (const auto after = access_after(load.slot)) {
      Inst next = load;
      next.slot = *after;
      if (chance(50)) std::swap(load, next);
      const uint16_t x = emit(load), y = emit(next);
      return ir::is_floating(load.dtype) ? prim(Prim::sub, load.dtype, row, x, y) : y;
    }
    return emit(load);
  }

  uint16_t operation(const std::vector<uint16_t>& pool, bool row) {
    constexpr Prim both[] = {Prim::add,     Prim::sub,      Prim::mul,     Prim::div,    Prim::minimum,
                             Prim::maximum, Prim::fma,      Prim::neg,     Prim::abs,    Prim::eq,
                             Prim::ne,      Prim::lt,       Prim::le,      Prim::select, Prim::mod,
                             Prim::fmod,    Prim::floordiv, Prim::convert, Prim::floor,  Prim::round};
    constexpr Prim floating[] = {Prim::sqrt, Prim::rsqrt, Prim::reciprocal, Prim::ceil, Prim::trunc};
    constexpr Prim integral[] = {Prim::bit_and,    Prim::bit_or,      Prim::bit_xor, Prim::bit_not,
                                 Prim::shift_left, Prim::shift_right, Prim::pow};
    const uint16_t a = any_of(pool);
    const DType t = type(a);
    Prim p = both[below(std::size(both))];
    if (chance(20))
      p = ir::is_floating(t) ? floating[below(std::size(floating))] : integral[below(std::size(integral))];
    if (p == Prim::convert) return as(a, ir::compute_type(memory_type()), row);
    if (p == Prim::select) {
      uint16_t condition = as(any_of(pool), DType::Bool, row);
      return prim(p, t, row, condition, a, as(any_of(pool), t, row));
    }
    const int arity = ir::info(p).arity;
    const uint16_t b = arity > 1 ? as(any_of(pool), t, row) : 0, c = arity > 2 ? as(any_of(pool), t, row) : 0;
    return prim(p, ir::info(p).result == ir::PrimResult::Bool ? DType::Bool : t, row, a, b, c);
  }

  // Clamps and rounds, so that sums and products are exact in any order; NaN stays.
  uint16_t tamed(uint16_t x, double limit) {
    const DType t = type(x);
    if (!ir::is_floating(t)) return x;
    uint16_t y = prim(Prim::minimum, t, false, x, literal(limit, t, false));
    y = prim(Prim::maximum, t, false, y, literal(-limit, t, false));
    return prim(Prim::round, t, false, y);
  }

  void reduction(const std::vector<uint16_t>& pool) {
    using lowering::Reduce;
    const Reduce r = static_cast<Reduce>(below(heavy_ ? 4 : 8));
    uint16_t x = any_of(pool);
    if (heavy_) x = as(x, DType::F32, false);
    DType t = type(x);
    if (r == Reduce::Sum || r == Reduce::Prod) x = tamed(x, r == Reduce::Sum ? 8 : 1);
    if (r == Reduce::Any || r == Reduce::All) t = DType::Bool;
    if (r == Reduce::ArgMax || r == Reduce::ArgMin) t = DType::I64;
    // Of equal zeros of both signs either may be the largest: make them one.
    if ((r == Reduce::Max || r == Reduce::Min) && ir::is_floating(t))
      x = prim(Prim::add, t, false, x, literal(0, t, false));
    reduced_.push_back(emit({.code = Code::Reduce, .reduce = r, .dtype = t, .args = {x}}));
  }

  void accumulate(const std::vector<uint16_t>& pool) {
    uint16_t x = tamed(any_of(pool), 8);
    if (type(x) == DType::Bool) x = as(x, DType::I32, false);
    const uint16_t slot = access(type(x), false, true, false);
    if (nest_.accesses[slot].stride == VectorStride::Zero) nest_.accesses[slot].stride = VectorStride::One;
    nest_.accesses[slot].still = true;
    emit({.code = Code::Accumulate, .dtype = type(x), .slot = slot, .args = {x}});
  }

  void store(uint16_t x, bool row, const std::vector<uint16_t>& pool) {
    const DType t = type(x) == DType::F32 && chance(40) ? (chance(50) ? DType::BF16 : DType::F16) : type(x);
    const bool indexed = chance(10);
    const uint16_t index = indexed ? index_of(pool, row) : 0;
    Inst stored{.code = Code::Store, .dtype = type(x), .row = row, .args = {x, index}};
    stored.slot = access(t, row, true, indexed);
    if (const auto after = access_after(stored.slot)) {
      Inst next = stored;
      next.slot = *after;
      next.args[0] = as(any_of(pool), type(x), row);
      if (chance(50)) std::swap(stored, next);
      emit(next);
    }
    emit(stored);
  }

  // What the stage before computed of elements.
  void repeat(std::vector<uint16_t>& pool) {
    std::vector<uint16_t> again(nest_.insts.size());
    const size_t n = nest_.insts.size();
    for (size_t i = 0; i < n; ++i) {
      Inst x = nest_.insts[i];
      again[i] = static_cast<uint16_t>(i);
      const bool gives = x.code == Code::Prim || x.code == Code::Load || x.code == Code::Position;
      if (x.row || !gives || x.stage + 1 != stage_) continue;
      for (uint16_t& a : x.args) a = again[a];
      pool.push_back(again[i] = emit(x));
    }
  }

  void generate_stage() {
    // Row values of every stage so far are readable; element values of this stage only.
    rows_.insert(rows_.end(), reduced_.begin(), reduced_.end());
    reduced_.clear();
    for (int64_t k = below(3) + (rows_.empty() ? 1 : 0); k-- > 0;) rows_.push_back(source(rows_, true));
    for (int64_t k = below(4); k-- > 0;) rows_.push_back(operation(rows_, true));
    if ((chance(30) && !heavy_) || stage_ + 1 == nest_.stages) store(any_of(rows_), true, rows_);
    if (stage_ + 1 == nest_.stages && stage_ > 0 && (heavy_ || chance(50))) return;

    std::vector<uint16_t> pool = rows_;
    if (heavy_) {
      const uint16_t x =
          emit({.code = Code::Load, .dtype = DType::F32, .slot = access(DType::F32, false, false, false)});
      prim(Prim::pow, DType::F32, false, x, x);
    }
    if (row_bound_ && stage_ > 0) repeat(pool);
    for (int64_t k = below(3) + 1; k-- > 0;) pool.push_back(source(pool, false));
    for (int64_t k = below(8) + 1; k-- > 0;) pool.push_back(operation(pool, false));
    if (nest_.reduced)
      for (int64_t k = below(3); k-- > 0;) reduction(pool);
    if (row_schedule() && chance(20)) accumulate(pool);
    if (chance(60) || nest_.reduced == 0) store(pool.back(), false, pool);
  }

  void generate(bool tiled) {
    narrow_ = chance(50);
    nest_.schedule = !tiled && chance(50) ? lowering::Schedule::Row : lowering::Schedule::Column;
    nest_.rank = static_cast<uint8_t>(below(3) + 1 + tiled);
    nest_.reduced = static_cast<uint8_t>(tiled ? 0 : row_schedule() ? below(nest_.rank) + 1 : below(nest_.rank));
    if (tiled) nest_.tile = static_cast<uint8_t>(below(nest_.rank - 1));
    nest_.stages = static_cast<uint8_t>(below(3) + 1);
    if (heavy_) {
      nest_.schedule = lowering::Schedule::Column;
      nest_.rank = static_cast<uint8_t>(below(2) + 2);
      nest_.reduced = 1;
      nest_.stages = 2;
    }
    if (row_bound_) {
      nest_.schedule = lowering::Schedule::Row;
      nest_.reduced = 1;
      nest_.row_bound = row_bound_;
    }
    for (stage_ = 0; stage_ < nest_.stages; ++stage_) generate_stage();
  }

  Placement place(const lowering::Access& a, const std::vector<int64_t>& sizes) {
    Placement p;
    if (a.after != lowering::kAlone) {
      p = last_places_[a.after];
      p.in = a.after;
      ++p.first;
      last_places_.push_back(p);
      return p;
    }
    p.strides.assign(nest_.rank, 0);
    std::vector<uint32_t> order;
    for (uint32_t d = a.still ? nest_.rank - nest_.reduced : 0;
         d < (a.row ? nest_.rank - nest_.reduced : nest_.rank) + 0u; ++d)
      order.push_back(d);
    std::shuffle(order.begin(), order.end(), rng_);
    const auto vector_at = std::find(order.begin(), order.end(), nest_.vector_dim());
    const bool is_dense = a.stride == VectorStride::One || a.stride == VectorStride::Backward;
    const bool is_first = is_dense || a.stride == VectorStride::Two;
    if (is_first && vector_at != order.end()) std::rotate(order.begin(), vector_at, vector_at + 1);
    if (a.across) {
      const auto tile_at = std::find(order.begin(), order.end(), nest_.tile);
      std::rotate(order.begin(), tile_at, tile_at + 1);
    }
    int64_t step = a.stride == VectorStride::Any && !a.across ? below(3) + 1 : a.stride == VectorStride::Two ? 2 : 1;
    p.extent += a.before != lowering::kAlone;
    for (uint32_t d : order) {
      const bool vector = d == nest_.vector_dim(), backward = vector && a.stride == VectorStride::Backward,
                 dense = (vector && is_first) || (a.across && d == nest_.tile);
      if (vector ? a.stride == VectorStride::Zero : !a.store && !dense && chance(20)) continue;
      p.strides[d] = step;
      const int64_t span = step * std::max<int64_t>(sizes[d], 1);
      p.extent += step * (std::max<int64_t>(sizes[d], 1) - 1);
      if (backward || (!dense && chance(20))) {
        p.first += step * (std::max<int64_t>(sizes[d], 1) - 1);
        p.strides[d] = -step;
      }
      step = span + (chance(30) ? below(3) : 0);
    }
    if (a.indexed) {
      p.index_stride = step;
      p.extent += step * (kIndices - 1);
    }
    if (&a == &nest_.accesses.front()) last_places_.clear();
    last_places_.push_back(p);
    // Garbage that nobody may look at.
    if (a.row)
      for (uint32_t d = nest_.rank - nest_.reduced; d < nest_.rank; ++d)
        last_places_.back().strides[d] = p.strides[d] = 1 << 20;
    return p;
  }

  static constexpr int kIndices = 5;
  const bool in_range_, heavy_ = false;
  const uint16_t row_bound_ = 0;
  std::mt19937_64 rng_;
  lowering::LoopNest nest_;
  uint8_t stage_ = 0;
  bool narrow_ = true;
  std::vector<uint16_t> rows_, reduced_;
  std::vector<bool> floating_params_;
  std::vector<Placement> last_places_;
};

}  // namespace lazuli::testing
