#include "tests/gpu/cases.h"
#include "ir/passes/pass.h"
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using ir::DType;
using ir::Op;
using ir::Value;

constexpr DType kF32 = DType::F32;

class Cases {
 public:
  std::vector<GpuCase> all;

  template <class Write>
  void add(std::string name, Write&& write, std::vector<int64_t> scalars = {}, double tolerance = 2e-5) {
    Model m;
    write(m);
    all.push_back({std::move(name), m.graph, std::move(scalars), tolerance});
  }
};

std::string suffix(DType t, std::initializer_list<int64_t> shape) {
  std::string s = " " + std::string(ir::name(t));
  for (int64_t n : shape)
    s += (s.back() < '0' || s.back() > '9' || s.find('x') == std::string::npos ? " x" : "x") + std::to_string(n);
  return s;
}

double tolerance_of(DType t) { return t == DType::BF16 ? 1.0 / 100 : t == DType::F16 ? 1.0 / 800 : 2e-5; }

void gelu(Cases& c, DType t, int64_t n) {
  c.add(
      "gelu" + suffix(t, {n}), [&](Model& m) { m.graph.outputs = {m.apply(Op::gelu, {m.input(t, {n})})}; }, {},
      tolerance_of(t));
}

void softmax(Cases& c, DType t, int64_t rows, int64_t columns) {
  c.add(
      "softmax" + suffix(t, {rows, columns}),
      [&](Model& m) { m.graph.outputs = {m.apply(Op::softmax, {m.input(t, {rows, columns})}, ir::Attrs{{1}})}; }, {},
      tolerance_of(t));
}

void softmax_backward(Cases& c, DType t, int64_t rows, int64_t columns) {
  c.add(
      "softmax backward" + suffix(t, {rows, columns}),
      [&](Model& m) {
        auto gy = m.input(t, {rows, columns}), y = m.input(t, {rows, columns});
        m.graph.outputs = {m.apply(Op::softmax_backward, {gy, y}, ir::Attrs{{1}})};
      },
      {}, 2 * tolerance_of(t));
}

void layer_norm(Cases& c, DType t, int64_t rows, int64_t columns) {
  c.add(
      "layer norm" + suffix(t, {rows, columns}),
      [&](Model& m) {
        auto x = m.input(t, {rows, columns}), w = m.input(t, {columns}), b = m.input(t, {columns});
        m.apply(Op::layer_norm, {x, w, b, m.constant(1e-5, DType::F64)}, ir::Attrs{{1}});
        m.graph.outputs = {m.all()[0], m.all()[1], m.all()[2]};
      },
      {}, 5 * tolerance_of(t));
}

void layer_norm_backward(Cases& c, DType t, int64_t rows, int64_t columns) {
  c.add(
      "layer norm backward" + suffix(t, {rows, columns}),
      [&](Model& m) {
        auto gy = m.input(t, {rows, columns}), x = m.input(t, {rows, columns});
        auto mean = m.input(kF32, {rows, 1}), rstd = m.input(kF32, {rows, 1}), w = m.input(t, {columns});
        m.apply(Op::layer_norm_backward, {gy, x, mean, rstd, w}, ir::Attrs{{1}});
        m.graph.outputs = {m.all()[0], m.all()[1], m.all()[2]};
      },
      {}, std::max(1e-3, 10 * tolerance_of(t)));
}

void adamw(Cases& c, DType t, int64_t n) {
  c.add(
      "adamw" + suffix(t, {n}),
      [&](Model& m) {
        auto input = [&] { return m.convert(m.input(t, {n}), kF32); };
        auto p = input(), g = input(), mom = input(), v = input();
        auto lr = m.scalar(kF32), c1 = m.scalar(kF32), c2 = m.scalar(kF32);
        auto decayed = m.sub(p, m.mul(p, m.mul(lr, 0.01)));
        auto m1 = m.add(m.mul(mom, 0.9), m.mul(g, 0.1));
        auto v1 = m.add(m.mul(m.apply(Op::abs, {v}), 0.999), m.mul(m.mul(g, g), 0.001));
        auto denominator = m.add(m.div(m.apply(Op::sqrt, {v1}), c2), 1e-8);
        auto p1 = m.sub(decayed, m.mul(m.div(lr, c1), m.div(m1, denominator)));
        m.graph.outputs = {m.convert(p1, t), m.convert(m1, t), m.convert(v1, t)};
        m.graph.donated = {true, false, true, true};
      },
      {std::bit_cast<int64_t>(0.01), std::bit_cast<int64_t>(0.1), std::bit_cast<int64_t>(0.03)},
      std::max(1e-4, tolerance_of(t)));
}

void transpose(Cases& c, DType t, int64_t a, int64_t b) {
  c.add(
      "transpose" + suffix(t, {a, b}),
      [&](Model& m) {
        auto x = m.input(t, {a, b});
        m.graph.outputs = {m.add(m.transpose(x), m.constant(1, t))};
      },
      {}, tolerance_of(t));
}

void column_sum(Cases& c, DType t, int64_t rows, int64_t columns) {
  c.add(
      "column sum" + suffix(t, {rows, columns}),
      [&](Model& m) { m.graph.outputs = {m.sum(m.input(t, {rows, columns}), ir::Dims{0}, false)}; }, {},
      std::max(1e-3, 4 * tolerance_of(t)));
}

void total(Cases& c, DType t, int64_t n) {
  c.add(
      "total" + suffix(t, {n}),
      [&](Model& m) {
        auto x = m.input(t, {n});
        m.graph.outputs = {m.sum(m.mul(x, x), ir::Dims{0}, false), m.apply(Op::amax, {x}, ir::Attrs{{0}, {0}})};
      },
      {}, std::max(1e-3, 4 * tolerance_of(t)));
}

void elementwise(Cases& c) {
  for (int64_t n : {1, 7, 1000, 1003, 70001}) gelu(c, kF32, n);
  for (int64_t n : {8, 1003, 4096}) gelu(c, DType::BF16, n);
  gelu(c, DType::F16, 1001);
  gelu(c, DType::F64, 1001);
  adamw(c, kF32, 1000);
  adamw(c, kF32, 5003);
  adamw(c, DType::BF16, 5003);
  c.add(
      "bias and gelu backward",
      [](Model& m) {
        auto gy = m.input({40, 64}), x = m.input({40, 64});
        auto gx = m.apply(Op::gelu_backward, {gy, x});
        m.graph.outputs = {gx, m.sum(gx, ir::Dims{0}, false)};
      },
      {}, 1e-4);
  c.add("broadcasts", [](Model& m) {
    auto x = m.input({6, 1, 33, 40}), y = m.input({1, 5, 33, 1}), z = m.input({40});
    m.graph.outputs = {m.add(m.mul(x, y), z)};
  });
  c.add("dropout",
        [](Model& m) {
          auto x = m.input({16, 24});
          const auto [y, mask] = dropout(m, x, 0.3);
          m.graph.outputs = {y, mask};
        },
        {7, 3});
  // Numbers below 10 are in range of one table and not of the other.
  for (int64_t rows : {10, 6})
    c.add("embedding of " + std::to_string(rows), [&](Model& m) {
      auto table = m.input({rows, 48});
      auto index = m.input(DType::I64, {77});
      m.graph.outputs = {m.apply(Op::index_select, {table, index}, ir::Attrs{{0}})};
    });
  c.add("embedding", [](Model& m) {
    auto table = m.input({10, 48});
    auto index = m.apply(Op::convert, {m.input(DType::U8, {77})}, ir::Attrs{{int64_t(DType::I64)}});
    m.graph.outputs = {m.apply(Op::index_select, {table, index}, ir::Attrs{{0}})};
  });
}

void rows(Cases& c) {
  for (int64_t n : {1, 5, 33, 64, 96, 1000, 1024, 3001, 50257}) softmax(c, kF32, n > 10000 ? 2 : 37, n);
  for (int64_t n : {8, 40, 1024, 2056, 20000}) softmax(c, DType::BF16, n > 10000 ? 3 : 21, n);
  softmax(c, DType::F64, 9, 300);
  for (int64_t n : {31, 768, 4096}) layer_norm(c, kF32, 19, n);
  layer_norm(c, DType::BF16, 130, 768);
  for (int64_t n : {31, 768, 1024}) layer_norm_backward(c, kF32, 130, n);
  layer_norm_backward(c, DType::BF16, 70, 768);
  // Rows and columns in one kernel, whose last chunk has fewer rows.
  for (auto [t, n] : {std::pair{kF32, 512}, {kF32, 771}, {kF32, 4096}, {DType::BF16, 768}}) {
    layer_norm_backward(c, t, 199, n);
    c.all.back().threads = 4;
  }
  softmax_backward(c, kF32, 33, 100);
  softmax_backward(c, DType::BF16, 33, 512);
  c.add("argmax", [](Model& m) {
    auto x = m.input({12, 300});
    m.graph.outputs = {m.apply(Op::argmax, {x}, ir::Attrs{{1}, {0}}), m.apply(Op::argmax, {x}, ir::Attrs{{0}, {0}})};
  });
  c.add(
      "batch norm",
      [](Model& m) {
        auto x = m.input({6, 8, 5, 5}), w = m.input({8}), b = m.input({8});
        m.apply(Op::batch_norm, {x, w, b, m.constant(1e-5, DType::F64)}, ir::Attrs{{0}});
        m.graph.outputs = {m.all()[0], m.all()[1], m.all()[2], m.all()[3]};
      },
      {}, 1e-4);
}

void others(Cases& c) {
  for (auto [a, b] : {std::pair{32, 32}, {33, 70}, {64, 128}, {100, 1000}}) {
    transpose(c, kF32, a, b);
    transpose(c, DType::BF16, a, b);
  }
  transpose(c, DType::F64, 40, 50);
  // Loads and stores that are turned, of types that share words of shared memory differently.
  for (auto [s, t] : {std::pair{kF32, kF32},
                      {DType::BF16, DType::BF16},
                      {DType::BF16, kF32},
                      {DType::U8, DType::I32},
                      {DType::U8, DType::U8},
                      {DType::F64, DType::F16}})
    for (auto [a, b] : {std::pair{40, 70}, {72, 200}, {64, 64}, {33, 50}})
      c.add(
          "transposed store of " + std::string(ir::name(t)) + suffix(s, {a, b}),
          [&](Model& m) {
            auto x = m.input(s, {a, b}), y = m.input(t, {b, a});
            auto z = m.add(m.convert(x, kF32), m.convert(m.transpose(y), kF32));
            auto square = m.convert(m.mul(z, z), s);
            m.graph.outputs = {z, m.apply(Op::permute, {square}, ir::Attrs{{1, 0}})};
          },
          {}, std::max(tolerance_of(s), tolerance_of(t)));
  for (auto [a, b] : {std::pair{40, 72}, {33, 64}})
    c.add("turned loads of two types" + suffix(DType::U8, {a, b}), [&](Model& m) {
      auto x = m.transpose(m.input(DType::BF16, {a, b})), y = m.transpose(m.input({a, b}));
      auto w = m.transpose(m.input(DType::U8, {a, b}));
      m.graph.outputs = {m.add(m.add(m.convert(x, kF32), y), m.convert(w, kF32))};
    });
  c.add("permuted", [](Model& m) { m.graph.outputs = {m.add(m.permute(m.input({5, 36, 48}), ir::Dims{2, 0, 1}), 1)}; });
  for (auto [r, n] : {std::pair{100, 7}, {5000, 64}, {3001, 40}, {3, 1000}, {20000, 12}}) column_sum(c, kF32, r, n);
  column_sum(c, DType::BF16, 4096, 64);
  column_sum(c, DType::BF16, 1000, 1000);
  for (int64_t n : {1000, 200003, 333333}) total(c, kF32, n);
  total(c, DType::BF16, 100001);
  total(c, DType::F64, 70003);
}

}  // namespace

lowering::Plan GpuCase::plan() const {
  lowering::PlanOptions options;
  options.threads = threads;
  options.accumulate = 1 << 16;
  options.tiles = false;
  return lowering::make_plan(ir::run_passes(graph, ir::all_passes()), options);
}

std::vector<GpuCase> small_cases() {
  Cases c;
  elementwise(c);
  rows(c);
  others(c);
  return std::move(c.all);
}

std::vector<GpuCase> benchmark_cases(int64_t bytes) {
  Cases c;
  const int64_t n = bytes / 4;
  for (DType t : {kF32, DType::BF16}) {
    const int64_t m = t == kF32 ? n : 2 * n;
    gelu(c, t, m);
    softmax(c, t, m / 1024, 1024);
    layer_norm(c, t, m / 768, 768);
    layer_norm_backward(c, t, m / 768, 768);
    const int64_t side = int64_t{1} << 12;
    transpose(c, t, side, m / side);
    column_sum(c, t, m / 1024, 1024);
    adamw(c, t, m);
  }
  return std::move(c.all);
}

}  // namespace lazuli::testing
