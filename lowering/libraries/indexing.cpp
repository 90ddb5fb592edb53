#include "lowering/libraries/indexing.h"
#include <algorithm>
#include <atomic>
#include <span>
#include <stdexcept>
#include "lowering/instruction_sets/instruction_sets.h"
#include "lowering/libraries/elements.h"
#include "lowering/libraries/strided_copy.h"
#include "lowering/threads/crew.h"

namespace lazuli::lowering {
namespace {

// A dimension that entries and destination share (`out` is its stride in the result), or one of the dimensions that
// are replaced by the index (`out` is 0).
struct Axis {
  int64_t size, index, src, out;
};

struct ScatterPlan {
  Layout base, result;
  ir::DType index_type;
  std::vector<Axis> shared;      // without the lanes
  Axis lane{1, 0, 0, 0};         // the innermost shared dimension
  std::vector<Axis> entries;     // in the order in which they are written
  int64_t size = 0, stride = 0;  // of the dimension that is indexed
  int64_t dim = 0;               // the dimension, as an error names it
  bool rows = false;             // an index stands for a whole row: index_add or index_copy
  bool outermost = false;        // ... of the first or the last of several dimensions
  ScatterMode mode = ScatterMode::Assign;
};

// A block of lanes of several entries, which lie along one axis.
template <class I, class T, class To>
struct Block {
  const I* index;
  const T* src;
  To* out;
  Axis entry, lane;       // the lanes' size: how many there are in the block
  int64_t stride, first;  // out[at * stride] for `count` positions from the first
  uint64_t count;
};

template <ScatterMode mode>
struct WriteBlock {
  template <class To, class T>
  static LAZULI_INLINE void write(To& to, T from) {
    if constexpr (mode == ScatterMode::Add)
      store_element(to, static_cast<Compute<T>>(to) + static_cast<Compute<T>>(from));
    else
      store_element(to, from);
  }
  // All lanes of an entry go to one place: a row.
  template <class To, class T>
  static LAZULI_INLINE void row(To* to, const T* from, const Axis& lane) {
    if (lane.out == 1 && lane.src == 1) {
#pragma omp simd
      for (int64_t l = 0; l < lane.size; ++l) write(to[l], from[l]);
    } else {
      for (int64_t l = 0; l < lane.size; ++l) write(to[l * lane.out], from[l * lane.src]);
    }
  }
  template <class I, class T, class To>
  static LAZULI_INLINE void run(const Block<I, T, To>& b) {
    constexpr int64_t kAhead = 8;
    const I* index = b.index;
    const T* src = b.src;
    const auto is_ours = [&](int64_t at) { return static_cast<uint64_t>(at - b.first) < b.count; };
    if (b.lane.size == 1) {
      for (int64_t e = 0; e < b.entry.size; ++e, index += b.entry.index, src += b.entry.src)
        if (is_ours(*index)) write(b.out[*index * b.stride], *src);
      return;
    }
    for (int64_t e = 0; e < b.entry.size; ++e, index += b.entry.index, src += b.entry.src) {
      if (b.lane.index == 0) {
        const int64_t ahead = e + kAhead < b.entry.size ? index[kAhead * b.entry.index] : b.first;
        __builtin_prefetch(b.out + ahead * b.stride, 1);
        if (is_ours(*index)) row(b.out + *index * b.stride, src, b.lane);
        continue;
      }
      for (int64_t l = 0; l < b.lane.size; ++l) {
        const int64_t at = index[l * b.lane.index];
        if (is_ours(at)) write(b.out[at * b.stride + l * b.lane.out], src[l * b.lane.src]);
      }
    }
  }
};

LAZULI_INLINE bool is_outside(int64_t at, int64_t size) {
  return static_cast<uint64_t>(at) >= static_cast<uint64_t>(size);
}

struct AnyOutside {
  template <class I>
  static LAZULI_INLINE void run(const I* index, int64_t step, int64_t n, int64_t size, bool* result) {
    uint64_t bad = 0;
    if (step == 1) {
#pragma omp simd reduction(| : bad)
      for (int64_t i = 0; i < n; ++i) bad |= uint64_t{is_outside(index[i], size)};
    } else {
      for (int64_t i = 0; i < n; ++i) bad |= uint64_t{is_outside(index[i * step], size)};
    }
    *result = bad;
  }
};

class Scatter final : public LibraryCall {
 public:
  explicit Scatter(ScatterPlan plan) : p_(std::move(plan)) {
    for (const Axis& a : p_.shared) outer_ *= a.size;
    for (const Axis& a : p_.entries) entries_ *= a.size;
    if (p_.lane.size == 0) outer_ = 0;
    is_wide_ = p_.mode == ScatterMode::Add && ir::is_reduced_floating(p_.result.dtype) &&
               outer_ * p_.lane.size * entries_ >= ir::product(p_.result.shape);
  }

  size_t scratch_bytes() const override {
    return is_wide_ ? static_cast<size_t>(ir::product(p_.result.shape)) * sizeof(float) : 0;
  }
  void run(const void* const* operands, void* const* results, void* scratch) override {
    if (p_.index_type == ir::DType::I64)
      check_bounds(static_cast<const int64_t*>(operands[1]));
    else
      check_bounds(static_cast<const int32_t*>(operands[1]));
    if (is_wide_) return add_in_float(operands, results[0], static_cast<float*>(scratch));
    if (operands[0] != results[0]) strided_copy(p_.base, operands[0], p_.result, results[0]);
    with_element_type(p_.result.dtype, [&](auto e) {
      using T = decltype(e);
      write_all(operands[1], static_cast<const T*>(operands[2]), static_cast<T*>(results[0]));
    });
  }
  std::string describe() const override { return p_.mode == ScatterMode::Add ? "scatter_add" : "scatter"; }

 private:
  // Sums of 16 bits are rounded once, as eager's are, where so many are added that a place gets one after the other.
  void add_in_float(const void* const* operands, void* result, float* sums) const {
    Layout wide = p_.result;
    wide.dtype = ir::DType::F32;
    strided_copy(p_.base, operands[0], wide, sums);
    with_element_type(p_.result.dtype, [&](auto e) {
      using T = decltype(e);
      if constexpr (is_floating_element<T>) write_all(operands[1], static_cast<const T*>(operands[2]), sums);
    });
    strided_copy(wide, sums, p_.result, result);
  }

  template <class T, class To>
  void write_all(const void* index, const T* src, To* out) const {
    if (p_.index_type == ir::DType::I64)
      write(static_cast<const int64_t*>(index), src, out);
    else
      write(static_cast<const int32_t*>(index), src, out);
  }

  // Steps through the entries in order, keeping the offsets of the current one.
  class Cursor {
   public:
    explicit Cursor(std::span<const Axis> axes, int64_t entry = 0) : axes_(axes), at_(axes.size(), 0) {
      for (size_t d = axes.size(); d-- > 0; entry /= axes[d].size) {
        at_[d] = entry % axes[d].size;
        index += axes[d].index * at_[d], src += axes[d].src * at_[d];
      }
    }
    void next() {
      for (size_t d = axes_.size(); d-- > 0;) {
        index += axes_[d].index, src += axes_[d].src;
        if (++at_[d] < axes_[d].size) return;
        index -= axes_[d].index * axes_[d].size, src -= axes_[d].src * axes_[d].size;
        at_[d] = 0;
      }
    }
    int64_t index = 0, src = 0;

   private:
    std::span<const Axis> axes_;
    ir::Dims at_;
  };

  template <class I>
  void check_bounds(const I* index) const {
    std::vector<Axis> all = p_.shared;
    all.push_back(p_.lane);
    all.insert(all.end(), p_.entries.begin(), p_.entries.end());
    std::erase_if(all, [](const Axis& a) { return a.index == 0 && a.size > 0; });
    int64_t n = 1;
    for (const Axis& a : all) n *= a.size;
    std::stable_sort(all.begin(), all.end(), [](const Axis& a, const Axis& b) { return a.index > b.index; });
    const Axis inner = all.empty() ? Axis{1, 0, 0, 0} : all.back();
    if (!all.empty()) all.pop_back();
    const int64_t lines = inner.size ? n / inner.size : 0;
    std::atomic<int64_t> bad_line = lines;
    share_out(lines, n > 32768, [&](int64_t begin, int64_t end, int) {
      Cursor line(all, begin);
      for (int64_t i = begin; i < end; ++i, line.next()) {
        const I* at = index + line.index;
        bool bad = false;
        run_for_host<AnyOutside, const I*, int64_t, int64_t, int64_t, bool*>(at, inner.index, inner.size, p_.size,
                                                                             &bad);
        if (bad) return lower(bad_line, i);
      }
    });
    if (bad_line == lines) return;
    const I* at = index + Cursor(all, bad_line).index;
    while (!is_outside(*at, p_.size)) at += inner.index;
    fail(*at);
  }
  static void lower(std::atomic<int64_t>& least, int64_t to) {
    int64_t was = least;
    while (to < was && !least.compare_exchange_weak(was, to)) {}
  }
  // In torch's words: those of index_add, of index_copy, of scatter and scatter_add, which torch also calls for most
  // index_add.
  [[noreturn]] void fail(int64_t at) const {
    const bool adds = p_.mode == ScatterMode::Add, scatters = p_.outermost && p_.index_type == ir::DType::I64;
    if (p_.rows && adds && !scatters) throw IndexError("index out of range in self");
    const std::string text = "index " + std::to_string(at) + " is out of bounds for dimension " +
                             std::to_string(p_.dim) + " with size " + std::to_string(p_.size);
    if (p_.rows && !adds) throw IndexError("index_copy_(): " + text);
    throw std::runtime_error(text);
  }

  // Threads divide the lanes when there are enough of them, and otherwise the positions of the indexed dimension.
  template <class I, class T, class To>
  void write(const I* index, const T* src, To* out) const {
    const bool small = outer_ * p_.lane.size * entries_ < 8192;
    const int64_t threads = small ? 1 : crew_size();
    const int64_t line = std::max<int64_t>(64 / static_cast<int64_t>(sizeof(To)), 1);
    const int64_t block = std::max((p_.lane.size + threads - 1) / threads, line);
    const int64_t blocks = (p_.lane.size + block - 1) / block, units = outer_ * blocks;
    const bool by_lanes = units >= threads;
    const int64_t jobs = by_lanes ? units : threads;
    share_out(jobs, static_cast<int>(threads), [&](int64_t begin, int64_t end, int) {
      for (int64_t j = begin; j < end; ++j) {
        const int64_t part = (p_.size + threads - 1) / threads, first = by_lanes ? 0 : j * part;
        const int64_t last = by_lanes ? p_.size : std::min(p_.size, first + part);
        for (int64_t u = by_lanes ? j : 0; u < (by_lanes ? j + 1 : units); ++u)
          write_unit(index, src, out, u, block, blocks, first, last);
      }
    });
  }

  // Writes one block of lanes at one position of the other shared dimensions, destinations [first, last) only.
  template <class I, class T, class To>
  void write_unit(const I* index, const T* src, To* out, int64_t unit, int64_t block, int64_t blocks, int64_t first,
                  int64_t last) const {
    const int64_t lane = unit % blocks * block, n = std::min(block, p_.lane.size - lane);
    int64_t rest = unit / blocks;
    index += lane * p_.lane.index, src += lane * p_.lane.src, out += lane * p_.lane.out;
    for (size_t d = p_.shared.size(); d-- > 0; rest /= p_.shared[d].size) {
      const int64_t at = rest % p_.shared[d].size;
      index += at * p_.shared[d].index, src += at * p_.shared[d].src, out += at * p_.shared[d].out;
    }
    Axis lanes = p_.lane;
    lanes.size = n;
    if (n == 1) lanes.index = 0;
    const std::span<const Axis> outer = std::span(p_.entries).first(p_.entries.size() - 1);
    Cursor at(outer);
    for (int64_t e = 0; e < entries_; e += p_.entries.back().size, at.next())
      write_block(Block<I, T, To>{index + at.index, src + at.src, out, p_.entries.back(), lanes, p_.stride, first,
                                  static_cast<uint64_t>(std::max<int64_t>(last - first, 0))});
  }
  template <class I, class T, class To>
  void write_block(const Block<I, T, To>& block) const {
    if (p_.mode == ScatterMode::Add)
      run_for_host<WriteBlock<ScatterMode::Add>, const Block<I, T, To>&>(block);
    else
      run_for_host<WriteBlock<ScatterMode::Assign>, const Block<I, T, To>&>(block);
  }

  ScatterPlan p_;
  int64_t outer_ = 1, entries_ = 1;
  bool is_wide_ = false;
};

ScatterPlan plan_for(const Layout& base, const Layout& index, const Layout& src, const Layout& out, ScatterMode mode) {
  if (src.dtype != out.dtype || base.dtype != out.dtype) throw TypeError("scatter: the element types differ");
  if (index.dtype != ir::DType::I64 && index.dtype != ir::DType::I32)
    throw TypeError("scatter: the index must be integral");
  if (base.shape != out.shape) throw TypeError("scatter: the result must have the base's shape");
  ScatterPlan p;
  p.base = base, p.result = out, p.index_type = index.dtype, p.mode = mode;
  return p;
}

// At least one; neighbours that are stepped through as one are one.
std::vector<Axis> merged(const std::vector<Axis>& axes) {
  std::vector<Axis> all;
  for (const Axis& a : axes) {
    if (!all.empty() && all.back().index == a.index * a.size && all.back().src == a.src * a.size)
      all.back() = {all.back().size * a.size, a.index, a.src, 0};
    else
      all.push_back(a);
  }
  if (all.empty()) all.push_back({1, 0, 0, 0});
  return all;
}

// Takes the innermost shared dimension (the one that the result is densest along) as lanes, unless the indexed one is
// denser still: then entries run innermost.
std::unique_ptr<LibraryCall> finish(ScatterPlan p) {
  p.entries = merged(p.entries);
  size_t best = p.shared.size();
  for (size_t d = 0; d < p.shared.size(); ++d)
    if (p.shared[d].size != 1 && (best == p.shared.size() || p.shared[d].out <= p.shared[best].out)) best = d;
  if (best < p.shared.size() && (p.shared[best].out <= p.stride || p.size <= 1)) {
    p.lane = p.shared[best];
    p.shared.erase(p.shared.begin() + best);
  }
  return std::make_unique<Scatter>(std::move(p));
}

}  // namespace

std::unique_ptr<LibraryCall> make_scatter(const Layout& base, const Layout& index, const Layout& src, const Layout& out,
                                          int64_t dim, ScatterMode mode) {
  ScatterPlan p = plan_for(base, index, src, out, mode);
  const size_t rank = out.shape.size();
  if (index.shape.size() != rank || src.shape.size() != rank ||
      (rank && (dim < 0 || dim >= static_cast<int64_t>(rank))))
    throw TypeError("scatter: the operands' ranks differ");
  p.size = 1, p.dim = dim;
  for (size_t d = 0; d < rank; ++d) {
    const bool indexed = static_cast<int64_t>(d) == dim;
    if (index.shape[d] > src.shape[d] || (!indexed && index.shape[d] > out.shape[d]))
      throw TypeError("scatter: the index is larger than what it addresses");
    const Axis axis{index.shape[d], index.strides[d], src.strides[d], indexed ? ir::Size(0) : out.strides[d]};
    (indexed ? p.entries : p.shared).push_back(axis);
    if (indexed) p.size = out.shape[d], p.stride = out.strides[d];
  }
  return finish(std::move(p));
}

std::unique_ptr<LibraryCall> make_index_add(const Layout& base, const Layout& index, const Layout& src,
                                            const Layout& out, int64_t dim, ScatterMode mode) {
  ScatterPlan p = plan_for(base, index, src, out, mode);
  const size_t rank = out.shape.size(), at = static_cast<size_t>(dim), wide = index.shape.size();
  if (at >= rank) throw TypeError("index_add: no such dimension");
  p.dim = dim, p.rows = true, p.outermost = rank > 1 && (at == 0 || at == rank - 1);
  Layout entries = index;
  const bool flat = src.shape.size() == rank && wide != 1;
  if (flat) {
    // One dimension of src stands for all of the index's: its stride is split among them.
    if (src.shape[at] != ir::product(index.shape)) throw TypeError("index_add: src does not fit the index");
    int64_t stride = src.strides[at];
    for (size_t d = wide; d-- > 0; stride *= index.shape[d]) entries.strides[d] = stride;
  } else {
    if (src.shape.size() != rank - 1 + wide) throw TypeError("index_add: src does not fit the index");
    for (size_t d = 0; d < wide; ++d) {
      if (src.shape[at + d] != index.shape[d]) throw TypeError("index_add: src does not fit the index");
      entries.strides[d] = src.strides[at + d];
    }
  }
  for (size_t d = 0; d < wide; ++d) p.entries.push_back({index.shape[d], index.strides[d], entries.strides[d], 0});
  const size_t used = flat ? 1 : wide;
  for (size_t d = 0; d < rank; ++d) {
    if (d == at) continue;
    const size_t s = d < at ? d : d - 1 + used;
    if (src.shape[s] != out.shape[d]) throw TypeError("index_add: src does not fit the base");
    p.shared.push_back({out.shape[d], 0, src.strides[s], out.strides[d]});
  }
  p.size = out.shape[at], p.stride = out.strides[at];
  return finish(std::move(p));
}

}  // namespace lazuli::lowering
