#include "lowering/libraries/recurrent/recurrent.h"
#include <algorithm>
#include <cstring>
#include "lowering/instruction_sets/instruction_sets.h"
#include "lowering/libraries/vector_math.h"
#include "lowering/threads/crew.h"
#include "lowering/threads/little_work.h"

namespace lazuli::lowering {
namespace {

using Cell = RecurrentLayer::Cell;

constexpr int64_t gates_of(Cell cell) { return cell == RecurrentLayer::Lstm ? 4 : 3; }

// Rows of the batch at one step, and a panel of units: as many as a vector has lanes, or fewer.
struct Step {
  const float* before;  // hidden states of the step before, rows `units` apart
  const float* gates;   // what the input adds: gate g of the panel's first unit at g * units, rows `gates_row` apart
  const float* panel;   // weights: for each unit of the state before, a vector for each gate
  const float* other;   // Gru: what is added to products, gate g of the panel's first unit at g * units
  float* state;         // Lstm: cell states, rows `units` apart
  float* hidden;        // results, likewise
  int64_t units, gates_row, first, count;  // of the panel
};

// What becomes of the sums of one row.
template <Cell cell>
struct Finish;
template <>
struct Finish<RecurrentLayer::Lstm> {
  template <int64_t kLanes>
  LAZULI_INLINE static void run(const float (*sums)[kLanes], const Step&, const float*, const float*, float* state,
                                float* hidden, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const float kept = vector_sigmoid(sums[1][i]) * state[i];
      const float c = kept + vector_sigmoid(sums[0][i]) * vector_tanh(sums[2][i]);
      state[i] = c;
      hidden[i] = vector_sigmoid(sums[3][i]) * vector_tanh(c);
    }
  }
};
template <>
struct Finish<RecurrentLayer::Gru> {
  template <int64_t kLanes>
  LAZULI_INLINE static void run(const float (*sums)[kLanes], const Step& s, const float* gates, const float* before,
                                float*, float* hidden, int64_t count) {
    const float* added = gates + 2 * s.units;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const float update = vector_sigmoid(sums[1][i]);
      const float fresh = vector_tanh(added[i] + vector_sigmoid(sums[0][i]) * sums[2][i]);
      hidden[i] = (before[s.first + i] - fresh) * update + fresh;
    }
  }
};

// Spelled once for each target: GCC splits vector types for the function that they stand in.
template <InstructionSet>
struct RecurrentKernel;
#define LAZULI_RECURRENT(set, target)                                                                      \
  template <>                                                                                              \
  struct RecurrentKernel<set> {                                                                            \
    typedef float Vector __attribute__((vector_size(kRegisterBlock<set>.vector_bytes), aligned(4)));       \
    static constexpr int64_t kLanes = kRegisterBlock<set>.vector_bytes / 4;                                \
    /* Sums stay in registers. */                                                                          \
    static constexpr int64_t kMostRows = kLanes == 16 ? 6 : 3;                                             \
    template <Cell cell, int64_t kRows>                                                                    \
    target static void run(const Step& s) {                                                                \
      constexpr bool is_gru = cell == RecurrentLayer::Gru;                                                 \
      constexpr int64_t kGates = gates_of(cell), kAdded = is_gru ? 2 : 4;                                  \
      float sums[kRows][kGates][kLanes] __attribute__((aligned(64))) = {};                                 \
      for (int64_t r = 0; r < kRows; ++r) {                                                                \
        for (int64_t g = 0; g < kAdded; ++g) {                                                             \
          const float* from = s.gates + r * s.gates_row + g * s.units;                                     \
          std::memcpy(sums[r][g], from, s.count == kLanes ? sizeof(sums[r][g]) : s.count * sizeof(float)); \
        }                                                                                                  \
        if (is_gru)                                                                                        \
          for (int64_t g = 0; g < kGates; ++g)                                                             \
            for (int64_t i = 0; i < s.count; ++i) sums[r][g][i] += s.other[g * s.units + i];               \
      }                                                                                                    \
      Vector v[kRows][kGates];                                                                             \
      _Pragma("GCC unroll 6") for (int64_t r = 0; r < kRows; ++r)                                          \
          _Pragma("GCC unroll 4") for (int64_t g = 0; g < kGates; ++g) v[r][g] =                           \
              *reinterpret_cast<const Vector*>(sums[r][g]);                                                \
      const float* w = s.panel;                                                                            \
      for (int64_t k = 0; k < s.units; ++k, w += kGates * kLanes) {                                        \
        Vector y[kGates];                                                                                  \
        _Pragma("GCC unroll 4") for (int64_t g = 0; g < kGates; ++g) y[g] =                                \
            *reinterpret_cast<const Vector*>(w + g * kLanes);                                              \
        _Pragma("GCC unroll 6") for (int64_t r = 0; r < kRows; ++r) {                                      \
          const float x = s.before[r * s.units + k];                                                       \
          _Pragma("GCC unroll 4") for (int64_t g = 0; g < kGates; ++g) v[r][g] += x * y[g];                \
        }                                                                                                  \
      }                                                                                                    \
      _Pragma("GCC unroll 6") for (int64_t r = 0; r < kRows; ++r)                                          \
              _Pragma("GCC unroll 4") for (int64_t g = 0; g < kGates; ++g) *                               \
          reinterpret_cast<Vector*>(sums[r][g]) = v[r][g];                                                 \
      for (int64_t r = 0; r < kRows; ++r)                                                                  \
        Finish<cell>::template run<kLanes>(sums[r], s, s.gates + r * s.gates_row, s.before + r * s.units,  \
                                           s.state + r * s.units, s.hidden + r * s.units, s.count);        \
    }                                                                                                      \
  };
#define INSTRUCTION_SET(name, target, ...) LAZULI_RECURRENT(InstructionSet::name, target)
#include "lowering/instruction_sets/all.def"
#undef LAZULI_RECURRENT

// So many rows at once.
int64_t most_rows() {
  return for_host([](auto set) { return RecurrentKernel<set()>::kMostRows; });
}

template <Cell cell, int64_t kRows = 6>
void run_rows(const Step& s, int64_t rows) {
  if constexpr (kRows > 1)
    if (rows < kRows) return run_rows<cell, kRows - 1>(s, rows);
  for_host([&](auto set) {
    using Kernel = RecurrentKernel<set()>;
    if constexpr (kRows <= Kernel::kMostRows) Kernel::template run<cell, kRows>(s);
  });
}

struct Shape {
  explicit Shape(const RecurrentLayer& l)
      : steps(l.gates.shape[0]),
        batch(l.gates.shape[1]),
        units(l.w.shape[1]),
        gates(gates_of(l.cell)),
        lanes(register_block().lanes<float>()) {}
  int64_t panels() const { return (units + lanes - 1) / lanes; }
  int64_t panel_size() const { return units * gates * lanes; }
  int64_t packed_size() const { return panels() * panel_size(); }
  int64_t steps, batch, units, gates, lanes;
};

void pack(const Shape& s, const Layout& w, const float* from, float* to, int threads) {
  const int64_t row = w.strides[0], column = w.strides[1];
  share_out(s.panels(), threads, [&](int64_t begin, int64_t end, int) {
    for (int64_t p = begin; p < end; ++p)
      for (int64_t g = 0; g < s.gates; ++g)
        for (int64_t lane = 0; lane < s.lanes; ++lane) {
          const int64_t unit = p * s.lanes + lane;
          float* packed = to + p * s.panel_size() + g * s.lanes + lane;
          const float* weights = from + (g * s.units + unit) * row;
          for (int64_t k = 0; k < s.units; ++k)
            packed[k * s.gates * s.lanes] = unit < s.units ? weights[k * column] : 0.0f;
        }
  });
}

class PackRecurrent final : public LibraryCall {
 public:
  explicit PackRecurrent(const RecurrentLayer& l)
      : shape_(l), w_(l.w), threads_(is_little(shape_.packed_size()) ? 1 : crew_size()) {}
  void run(const void* const* operands, void* const* results, void*) override {
    pack(shape_, w_, static_cast<const float*>(operands[0]), static_cast<float*>(results[0]), threads_);
  }
  size_t bytes() const { return static_cast<size_t>(shape_.packed_size()) * sizeof(float); }
  std::string describe() const override { return "recurrent_weights:packed"; }

 private:
  Shape shape_;
  Layout w_;
  int threads_;
};

// Threads share the rows of the batch, each with all steps; or, where there are too few rows or so many weights that
// each thread had better keep its own in its cache, the units, and meet after each step.
class Recurrent final : public LibraryCall {
 public:
  Recurrent(const RecurrentLayer& layer, bool takes_packed)
      : layer_(layer), shape_(layer), takes_packed_(takes_packed) {
    constexpr int64_t kEnough = 512 << 10;  // products of a step, to wake another thread for
    constexpr int64_t kCached = 256 << 10;  // weights
    const int64_t of_step = shape_.batch * shape_.gates * shape_.units * shape_.units;
    const int threads = is_little(of_step * shape_.steps) ? 1 : crew_size();
    by_unit_ = shape_.batch < threads || (shape_.packed_size() > kCached && of_step >= kEnough);
    threads_ = by_unit_ && of_step < kEnough ? 1 : threads;
    const int64_t shares = by_unit_ ? 1 : threads_;
    rows_ = std::clamp<int64_t>((shape_.batch + shares - 1) / shares, 1, most_rows());
  }

  void run(const void* const* operands, void* const* results, void* scratch) override {
    Run r{static_cast<const float*>(operands[0]), static_cast<const float*>(operands[kPackedOperand]),
          static_cast<const float*>(operands[2]), static_cast<const float*>(operands[3]),
          static_cast<float*>(results[0]),        static_cast<float*>(results[0])};
    if (!takes_packed_) {
      pack(shape_, layer_.w, r.w, static_cast<float*>(scratch), threads_);
      r.w = static_cast<const float*>(scratch);
    }
    if (layer_.cell == RecurrentLayer::Lstm) {
      r.state = static_cast<float*>(results[1]);
      std::memcpy(r.state, r.other, shape_.batch * shape_.units * sizeof(float));
    }
    const int64_t groups = (shape_.batch + rows_ - 1) / rows_, panels = shape_.panels();
    if (!by_unit_)
      return share_out(groups, threads_, [&](int64_t begin, int64_t end, int) {
        for (int64_t g = begin; g < end; ++g)
          for (int64_t t = 0; t < shape_.steps; ++t)
            for (int64_t p = 0; p < panels; ++p) compute(r, t, p, g);
      });
    for (int64_t t = 0; t < shape_.steps; ++t)
      share_out(panels, threads_, [&](int64_t begin, int64_t end, int) {
        for (int64_t p = begin; p < end; ++p)
          for (int64_t g = 0; g < groups; ++g) compute(r, t, p, g);
      });
  }
  size_t scratch_bytes() const override {
    return takes_packed_ ? 0 : static_cast<size_t>(shape_.packed_size()) * sizeof(float);
  }
  std::string describe() const override { return layer_.cell == RecurrentLayer::Lstm ? "lstm:own" : "gru:own"; }

 private:
  struct Run {
    const float *gates, *w, *first, *other;
    float *hidden, *state;  // state: an LSTM's cells; else nobody reads it
  };

  // Of step `t` in the order of time, a panel of units of a group of rows.
  void compute(const Run& r, int64_t t, int64_t p, int64_t group) const {
    const Shape& s = shape_;
    const int64_t at = layer_.reverse ? s.steps - 1 - t : t, before = layer_.reverse ? at + 1 : at - 1;
    const int64_t row = group * rows_, all = s.batch * s.units, unit = p * s.lanes;
    const ir::Dims& strides = layer_.gates.strides;
    const Step step{(t == 0 ? r.first : r.hidden + before * all) + row * s.units,
                    r.gates + at * strides[0] + row * strides[1] + unit,
                    r.w + p * s.panel_size(),
                    r.other + unit,
                    r.state + row * s.units + unit,
                    r.hidden + at * all + row * s.units + unit,
                    s.units,
                    strides[1],
                    unit,
                    std::min(s.lanes, s.units - unit)};
    const int64_t rows = std::min(rows_, s.batch - row);
    if (layer_.cell == RecurrentLayer::Lstm)
      run_rows<RecurrentLayer::Lstm>(step, rows);
    else
      run_rows<RecurrentLayer::Gru>(step, rows);
  }

  RecurrentLayer layer_;
  Shape shape_;
  bool takes_packed_, by_unit_;
  int threads_;
  int64_t rows_;  // that are computed at once
};

}  // namespace

std::unique_ptr<LibraryCall> make_recurrent(const RecurrentLayer& layer) {
  return std::make_unique<Recurrent>(layer, false);
}

PackedCall make_packed_recurrent(const RecurrentLayer& layer) {
  auto packing = std::make_shared<PackRecurrent>(layer);
  PackedCall p{packing, std::make_unique<Recurrent>(layer, true), packing->bytes(), "recurrent", 0, {}, 0};
  for (const ir::Dims* d : {&layer.w.shape, &layer.w.strides})
    for (int64_t n : *d) p.order += ' ' + std::to_string(n);
  return p;
}

}  // namespace lazuli::lowering
