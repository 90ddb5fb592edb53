// Layers of recurrent networks against float64's formulas: batches, units beyond whole vectors, directions, threads.
#include <cmath>
#include <string>
#include <vector>
#include "lowering/libraries/recurrent/recurrent.h"
#include "lowering/threads/crew.h"
#include "tests/lowering/libraries_support.h"

namespace lazuli::lowering {
namespace {

using ir::Dims;
using ir::DType;
using testing::expect_close;
using testing::layout;
using testing::Tensor;

struct LayerCase {
  int64_t steps, batch, units;
};
const LayerCase kCases[] = {{1, 1, 16},  {5, 1, 5},   {7, 2, 33},  {4, 7, 16},
                            {3, 13, 48}, {2, 20, 40}, {6, 1, 160}, {3, 9, 150}};

// Operands and results of a layer, and what it should give.
struct Layer {
  Layer(RecurrentLayer::Cell cell, const LayerCase& c, bool reverse, bool turned)
      : c(c),
        parts(cell == RecurrentLayer::Lstm ? 4 : 3),
        gates(Tensor::random(turned ? layout(DType::F32, {c.steps, c.batch, parts * c.units}, {1, 0, 2}, 8)
                                    : layout(DType::F32, {c.steps, c.batch, parts * c.units}),
                             1, -2, 2)),
        w(Tensor::random(turned ? layout(DType::F32, {parts * c.units, c.units}, {1, 0})
                                : layout(DType::F32, {parts * c.units, c.units}),
                         2, -0.3, 0.3)),
        h(Tensor::random(layout(DType::F32, {c.batch, c.units}), 3)),
        other(Tensor::random(cell == RecurrentLayer::Lstm ? h.layout : layout(DType::F32, {parts * c.units}), 4)),
        y(layout(DType::F32, {c.steps, c.batch, c.units})),
        last(h.layout),
        layer{cell, reverse, gates.layout, w.layout} {}

  std::vector<Tensor*> results() {
    return layer.cell == RecurrentLayer::Lstm ? std::vector<Tensor*>{&y, &last} : std::vector<Tensor*>{&y};
  }
  void run() { testing::run(*make_recurrent(layer), {&gates, &w, &h, &other}, results()); }

  // What y and last should be, by [step, row, unit] and [row, unit].
  void compute() {
    wanted.assign(static_cast<size_t>(c.steps), std::vector<double>(static_cast<size_t>(c.batch * c.units)));
    cells.resize(static_cast<size_t>(c.batch * c.units));
    const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
    for (int64_t b = 0; b < c.batch; ++b) {
      std::vector<double> state(static_cast<size_t>(c.units)), next = state, cell = state;
      for (int64_t u = 0; u < c.units; ++u) {
        state[static_cast<size_t>(u)] = h.get({b, u});
        if (parts == 4) cell[static_cast<size_t>(u)] = other.get({b, u});
      }
      for (int64_t i = 0; i < c.steps; ++i, state = next) {
        const int64_t t = layer.reverse ? c.steps - 1 - i : i;
        for (int64_t u = 0; u < c.units; ++u) {
          double x[4] = {}, p[4] = {};
          for (int64_t g = 0; g < parts; ++g) {
            x[g] = gates.get({t, b, g * c.units + u});
            for (int64_t k = 0; k < c.units; ++k) p[g] += state[static_cast<size_t>(k)] * w.get({g * c.units + u, k});
            if (parts == 3) p[g] += other.get({g * c.units + u});
          }
          double& made = next[static_cast<size_t>(u)];
          if (parts == 4) {
            double& s = cell[static_cast<size_t>(u)];
            s = sigmoid(x[1] + p[1]) * s + sigmoid(x[0] + p[0]) * std::tanh(x[2] + p[2]);
            made = sigmoid(x[3] + p[3]) * std::tanh(s);
          } else {
            const double z = sigmoid(x[1] + p[1]), n = std::tanh(x[2] + sigmoid(x[0] + p[0]) * p[2]);
            made = (1 - z) * n + z * state[static_cast<size_t>(u)];
          }
          wanted[static_cast<size_t>(t)][static_cast<size_t>(b * c.units + u)] = made;
        }
      }
      for (int64_t u = 0; u < c.units; ++u) cells[static_cast<size_t>(b * c.units + u)] = cell[static_cast<size_t>(u)];
    }
  }
  void expect_right() {
    compute();
    expect_close(
        y,
        [&](const Dims& at) {
          return wanted[static_cast<size_t>(int64_t{at[0]})][static_cast<size_t>(at[1] * c.units + at[2])];
        },
        16, "hidden states");
    if (parts == 4)
      expect_close(
          last, [&](const Dims& at) { return cells[static_cast<size_t>(at[0] * c.units + at[1])]; }, 16, "cells");
  }

  LayerCase c;
  int64_t parts;
  Tensor gates, w, h, other, y, last;
  RecurrentLayer layer;
  std::vector<std::vector<double>> wanted;
  std::vector<double> cells;
};

TEST(LibrariesRecurrent, IsTheFormula) {
  for (RecurrentLayer::Cell cell : {RecurrentLayer::Lstm, RecurrentLayer::Gru})
    for (const LayerCase& c : kCases)
      for (bool reverse : {false, true})
        for (bool turned : {false, true}) {
          Layer l(cell, c, reverse, turned);
          l.run();
          l.expect_right();
        }
}

TEST(LibrariesRecurrent, PackedWeights) {
  for (RecurrentLayer::Cell cell : {RecurrentLayer::Lstm, RecurrentLayer::Gru})
    for (const LayerCase& c : kCases) {
      Layer l(cell, c, false, false);
      const PackedCall p = make_packed_recurrent(l.layer);
      Tensor packed(layout(DType::F32, {static_cast<int64_t>(p.bytes / sizeof(float))}));
      testing::run(*p.pack, {&l.w}, {&packed});
      EXPECT_EQ(p.call->scratch_bytes(), 0);
      testing::run(*p.call, {&l.gates, &packed, &l.h, &l.other}, l.results());
      l.expect_right();
    }
}

TEST(LibrariesRecurrent, TheBitsDoNotDependOnThreads) {
  for (RecurrentLayer::Cell cell : {RecurrentLayer::Lstm, RecurrentLayer::Gru})
    for (const LayerCase& c : {LayerCase{3, 5, 128}, {3, 1, 420}, {2, 16, 300}}) {
      Layer first(cell, c, false, false);
      {
        const Threads one(1);
        first.run();
      }
      for (int threads : {2, 3}) {
        const Threads some(threads);
        Layer l(cell, c, false, false);
        l.run();
        l.y.each([&](const Dims& at) { ASSERT_EQ(l.y.get(at), first.y.get(at)); });
      }
    }
}

TEST(LibrariesRecurrent, NanStaysInItsRow) {
  Layer l(RecurrentLayer::Lstm, {4, 8, 20}, false, false);
  l.gates.set({1, 3, 5}, std::nan(""));
  l.run();
  l.y.each([&](const Dims& at) {
    const bool is_nan = at[1] == 3 && (at[0] > 1 || (at[0] == 1 && at[2] == 5));
    ASSERT_EQ(std::isnan(l.y.get(at)), is_nan) << at[0] << ' ' << at[1] << ' ' << at[2];
  });
}

}  // namespace
}  // namespace lazuli::lowering
