// Pooling and its gradients against windows walked one by one.
#include "lowering/libraries/pooling/pooling.h"
#include "tests/lowering/libraries_support.h"

namespace lazuli::lowering {
namespace {

using ir::Dims;
using ir::DType;
using testing::expect_close;
using testing::layout;
using testing::Tensor;

struct Case {
  Dims x;
  PoolParams p;
  bool ceil_mode = false;

  Dims y() const {
    Dims out = x;
    for (size_t d = 0; d < 2; ++d) {
      ir::Size& size = out[x.size() - 2 + d];
      const int64_t room = size + 2 * p.padding[d] - p.dilation[d] * (p.kernel[d] - 1) - 1, s = p.stride[d];
      int64_t o = (room + (ceil_mode ? s - 1 : 0)) / s + 1;
      if (ceil_mode && (o - 1) * s >= size + p.padding[d]) --o;
      size = o;
    }
    return out;
  }
};

Case make_case(Dims x, int64_t kernel, int64_t stride, int64_t padding, bool ceil_mode = false, int64_t dilation = 1) {
  return {x, {{kernel, kernel + 1}, {stride, stride}, {padding, padding}, {dilation, dilation}, true, 0}, ceil_mode};
}

const std::vector<Case> kCases{
    make_case({2, 3, 8, 9}, 2, 2, 0),         make_case({2, 19, 9, 8}, 3, 2, 1),
    make_case({1, 5, 7, 11}, 3, 1, 1),        make_case({2, 16, 10, 10}, 3, 2, 1, true),
    make_case({1, 2, 12, 13}, 2, 3, 1, true), make_case({3, 7, 9}, 3, 2, 1),
    make_case({2, 1, 6, 40}, 3, 1, 1),        make_case({0, 4, 6, 6}, 2, 2, 0),
};

template <class F>
void each_window_position(const Case& c, const Dims& o, F f) {
  const size_t r = o.size();
  for (int64_t kh = 0; kh < c.p.kernel[0]; ++kh)
    for (int64_t kw = 0; kw < c.p.kernel[1]; ++kw) {
      Dims i = o;
      i[r - 2] = o[r - 2] * c.p.stride[0] - c.p.padding[0] + kh * c.p.dilation[0];
      i[r - 1] = o[r - 1] * c.p.stride[1] - c.p.padding[1] + kw * c.p.dilation[1];
      if (i[r - 2] >= 0 && i[r - 2] < c.x[r - 2] && i[r - 1] >= 0 && i[r - 1] < c.x[r - 1]) f(i);
    }
}

std::vector<std::vector<size_t>> orders(size_t rank) {
  if (rank == 4) return {{0, 1, 2, 3}, {0, 2, 3, 1}, {3, 1, 0, 2}};
  return {{0, 1, 2}, {1, 2, 0}};
}

void check_max(const Case& c, Tensor& x, const std::vector<size_t>& order) {
  const Dims shape = c.y();
  const DType t = x.layout.dtype;
  Tensor values(layout(t, shape, order)), indices(layout(DType::I64, shape, order));
  testing::run(*make_max_pool2d(x.layout, values.layout, indices.layout, c.p), {&x}, {&values, &indices});
  const size_t r = shape.size();
  values.each([&](const Dims& o) {
    double best = -INFINITY;
    int64_t where = -1;
    each_window_position(c, o, [&](const Dims& i) {
      const double v = x.get(i);
      const int64_t flat = i[r - 2] * c.x[r - 1] + i[r - 1];
      if (where < 0) where = flat;
      if (v > best || std::isnan(v)) best = v, where = flat;
    });
    EXPECT_EQ(indices.get(o), where);
    EXPECT_TRUE(values.get(o) == best || (std::isnan(best) && std::isnan(values.get(o))))
        << values.get(o) << " " << best;
  });
  if (!ir::is_floating(t)) return;
  Tensor gy = Tensor::random(values.layout, 5), gx(x.layout), sums(layout(DType::F64, c.x));
  sums.each([&](const Dims& at) { sums.set(at, 0); });
  gy.each([&](const Dims& o) {
    Dims i = o;
    const int64_t flat = static_cast<int64_t>(indices.get(o));
    i[r - 2] = flat / c.x[r - 1], i[r - 1] = flat % c.x[r - 1];
    sums.set(i, sums.get(i) + gy.get(o));
  });
  testing::run(*make_max_pool2d_grad(gy.layout, indices.layout, gx.layout), {&gy, &indices}, {&gx});
  expect_close(gx, [&](const Dims& at) { return sums.get(at); }, 1, "max_pool2d_grad");
}

const std::vector<DType> kTypes{DType::F32, DType::F64, DType::BF16, DType::F16};

TEST(LibrariesPooling, MaxPoolWithItsGradient) {
  for (DType t : kTypes)
    for (const Case& c : kCases)
      for (const auto& order : orders(c.x.size())) {
        Tensor x = Tensor::random(layout(t, c.x, order), 1);
        check_max(c, x, order);
      }
}

TEST(LibrariesPooling, DilatedMaxPool) {
  for (const auto& order : orders(4)) {
    Tensor x = Tensor::random(layout(DType::F32, {2, 17, 12, 13}, order), 1);
    check_max(make_case({2, 17, 12, 13}, 3, 2, 1, false, 2), x, order);
  }
}

TEST(LibrariesPooling, FirstOfEqualMaximaWins) {
  for (const auto& order : orders(4)) {
    const Case c = make_case({2, 18, 9, 9}, 3, 2, 1);
    Tensor x(layout(DType::F32, c.x, order));
    std::mt19937 generator(3);
    x.each([&](const Dims& at) { x.set(at, static_cast<double>(generator() % 3)); });
    check_max(c, x, order);
    x.each([&](const Dims& at) { x.set(at, -INFINITY); });
    check_max(c, x, order);
  }
}

TEST(LibrariesPooling, NanWinsOverEverything) {
  for (const auto& order : orders(4)) {
    const Case c = make_case({2, 18, 9, 9}, 3, 2, 1);
    Tensor x = Tensor::random(layout(DType::F32, c.x, order), 1);
    std::mt19937 generator(3);
    x.each([&](const Dims& at) {
      if (generator() % 5 == 0) x.set(at, generator() % 2 ? NAN : INFINITY);
    });
    check_max(c, x, order);
  }
}

TEST(LibrariesPooling, IntegerMaxPool) {
  Tensor x = Tensor::random(layout(DType::I32, {2, 3, 8, 8}), 1, -100, 100);
  check_max(make_case({2, 3, 8, 8}, 2, 2, 0), x, {0, 1, 2, 3});
}

// Positions that nobody asks for make no difference to the values. Windows of two neighbours, in one row or two, have a
// loop of their own.
TEST(LibrariesPooling, MaxPoolWithoutPositions) {
  const auto pairs = [](Dims x, int64_t high, int64_t padding, bool ceil_mode) {
    return Case{x, {{high, 2}, {2, 2}, {padding, 0}, {1, 1}, true, 0}, ceil_mode};
  };
  std::vector<Case> cases = kCases;
  for (int64_t width : {2, 3, 31, 32, 33, 64, 130})
    for (int64_t high : {1, 2, 3})
      for (bool ceil_mode : {false, true}) cases.push_back(pairs({2, 3, 5, width}, high, high / 2, ceil_mode));
  for (DType t : {DType::F32, DType::F64, DType::BF16, DType::F16, DType::I32, DType::U8})
    for (const Case& c : cases)
      for (const auto& order : orders(c.x.size())) {
        Tensor x = Tensor::random(layout(t, c.x, order), 1, 0, 50);
        std::mt19937 generator(3);
        if (ir::is_floating(t))
          x.each([&](const Dims& at) {
            if (generator() % 9 == 0) x.set(at, generator() % 2 ? NAN : -INFINITY);
          });
        Tensor values(layout(t, c.y(), order)), indices(layout(DType::I64, c.y(), order)), alone(values.layout);
        testing::run(*make_max_pool2d(x.layout, values.layout, indices.layout, c.p), {&x}, {&values, &indices});
        const void* in[] = {x.data()};
        void* out[] = {alone.data(), nullptr};
        make_max_pool2d(x.layout, values.layout, indices.layout, c.p)->run(in, out, nullptr);
        EXPECT_TRUE(alone.guards_hold());
        values.each([&](const Dims& o) {
          const double a = alone.get(o), v = values.get(o);
          EXPECT_TRUE(a == v || (std::isnan(a) && std::isnan(v))) << a << " " << v;
        });
      }
}

void check_avg(const Case& c, DType t, const std::vector<size_t>& order) {
  const Dims shape = c.y();
  Tensor x = Tensor::random(layout(t, c.x, order), 1), y(layout(t, shape, order)), gy = Tensor::random(y.layout, 2),
         gx(x.layout);
  Tensor sums(layout(DType::F64, c.x)), expected(layout(DType::F64, shape));
  sums.each([&](const Dims& at) { sums.set(at, 0); });
  const size_t r = shape.size();
  y.each([&](const Dims& o) {
    int64_t padded = 1, clipped = 1;
    for (size_t d = 0; d < 2; ++d) {
      const int64_t start = o[r - 2 + d] * c.p.stride[d] - c.p.padding[d], size = c.x[r - 2 + d];
      const int64_t stop = std::min(start + c.p.kernel[d], size + c.p.padding[d]);
      padded *= stop - start;
      clipped *= std::min(stop, size) - std::max<int64_t>(start, 0);
    }
    const double divisor = c.p.divisor_override ? c.p.divisor_override : c.p.count_include_pad ? padded : clipped;
    double sum = 0;
    each_window_position(c, o, [&](const Dims& i) {
      sum += x.get(i);
      sums.set(i, sums.get(i) + gy.get(o) / divisor);
    });
    expected.set(o, sum / divisor);
  });
  testing::run(*make_avg_pool2d(x.layout, y.layout, c.p), {&x}, {&y});
  expect_close(y, [&](const Dims& at) { return expected.get(at); }, 1, "avg_pool2d");
  testing::run(*make_avg_pool2d_grad(gy.layout, gx.layout, c.p), {&gy}, {&gx});
  expect_close(gx, [&](const Dims& at) { return sums.get(at); }, 1, "avg_pool2d_grad");
}

TEST(LibrariesPooling, AveragePoolWithItsGradient) {
  for (DType t : kTypes)
    for (Case c : kCases)
      for (const auto& order : orders(c.x.size()))
        for (bool include : {false, true})
          for (int64_t divisor : {0, 3}) {
            c.p.count_include_pad = include, c.p.divisor_override = divisor;
            check_avg(c, t, order);
          }
}

}  // namespace
}  // namespace lazuli::lowering
