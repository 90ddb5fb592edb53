// Products in a BLAS's terms, computed as a BLAS would on plain memory.
#include "lowering/libraries/product/blas_epilogue.h"
#include "lowering/libraries/product/blas_product.h"
#include "tests/lowering/matmul_cases.h"

namespace lazuli::lowering {
namespace {

using ir::DType;
using testing::after_post_op;
using testing::layout;
using testing::MatmulCase;
using testing::MatmulOperands;
using testing::Tensor;

// Memory by element number, as the library sees it.
class Elements {
 public:
  explicit Elements(Tensor& t) : dtype_(t.layout.dtype), data_(t.data()) {}
  double get(int64_t at) const {
    return with_element_type(dtype_, [&](auto e) { return static_cast<double>(static_cast<decltype(e)*>(data_)[at]); });
  }
  void set(int64_t at, double value) {
    with_element_type(dtype_, [&](auto e) { static_cast<decltype(e)*>(data_)[at] = static_cast<decltype(e)>(value); });
  }

 private:
  DType dtype_;
  void* data_;
};

int64_t element(const BlasMatrix& m, int64_t row, int64_t column) {
  if (m.transposed) std::swap(row, column);
  EXPECT_TRUE(row < m.rows && column < m.columns && m.leading >= m.rows);
  return row + column * m.leading;
}

// What the library does with such a description.
void compute(const BlasProduct& p, const BlasEpilogue& e, Elements a, Elements b, Elements* other, Elements d) {
  int64_t calls = p.batches;
  for (const auto& o : p.outer) calls *= o.size;
  for (int64_t call = 0; call < calls; ++call) {
    const int64_t batch = call % p.batches;
    int64_t at_a = batch * p.a.batch_step, at_b = batch * p.b.batch_step, at_c = batch * p.c.batch_step,
            at_d = batch * p.d.batch_step, rest = call / p.batches;
    for (const auto& o : p.outer) {
      const int64_t i = rest % o.size;
      rest /= o.size;
      at_a += i * o.a, at_b += i * o.b, at_c += i * o.c, at_d += i * o.d;
    }
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < p.k; ++k) sum += a.get(at_a + element(p.a, i, k)) * b.get(at_b + element(p.b, k, j));
        sum *= e.alpha;
        if (e.addend) sum += other->get(at_c + element(p.c, i, j));
        if (e.bias) sum += other->get(i);
        if (e.activation == BlasEpilogue::Relu) sum = after_post_op({PostOp::Relu}, sum);
        if (e.activation == BlasEpilogue::GeluTanh) sum = after_post_op({PostOp::GeluTanh}, sum);
        d.set(at_d + element(p.d, i, j), sum);
      }
  }
}

void check(const MatmulCase& c) {
  EXPECT_TRUE(blas_reads(c.a) && blas_reads(c.b)) << c.name;
  const auto e = blas_epilogue(c.a.dtype, c.ops, c.out);
  ASSERT_TRUE(e) << c.name;
  const auto p = blas_product(c.a, c.b, c.out, e->addend ? &*e->addend : nullptr, e->bias);
  ASSERT_TRUE(p) << c.name;
  MatmulOperands x(c);
  std::optional<Elements> other;
  if (!x.others.empty()) other.emplace(x.others[0]);
  Elements a(x.a), b(x.b);
  compute(*p, *e, p->swapped ? b : a, p->swapped ? a : b, other ? &*other : nullptr, Elements(x.out));
  EXPECT_TRUE(x.out.guards_hold()) << c.name;
  testing::expect_close(x.out, testing::MatmulReference(c, x), 0.1, c.name + ": " + describe(*p));
}

void check(const std::vector<MatmulCase>& cases) {
  for (const MatmulCase& c : cases) check(c);
}

TEST(LibrariesBlasProduct, EverySize) { check(testing::size_cases(DType::F64)); }
TEST(LibrariesBlasProduct, EveryOrder) { check(testing::order_cases(DType::F64)); }
TEST(LibrariesBlasProduct, Batches) { check(testing::batch_cases(DType::F64)); }
TEST(LibrariesBlasProduct, Epilogues) {
  check(testing::epilogue_cases(DType::BF16));
  check(testing::epilogue_cases(DType::F32));
}

BlasProduct product(const Layout& a, const Layout& b, const Layout& out, bool bias = false) {
  const auto p = blas_product(a, b, out, nullptr, bias);
  EXPECT_TRUE(p);
  return p.value_or(BlasProduct{});
}

TEST(LibrariesBlasProduct, BatchesThatShareAnOperandAreOneProduct) {
  const DType t = DType::F32;
  BlasProduct p =
      product(layout(t, {3, 5, 7, 16}), layout(t, {3, 5, 16, 9}, {}, 0, {0, 1}), layout(t, {3, 5, 7, 9}), true);
  EXPECT_EQ(describe(p), "105x9x16 nn");
  p = product(layout(t, {3, 5, 1, 16}), layout(t, {3, 5, 16, 9}, {}, 0, {0, 1}), layout(t, {3, 5, 1, 9}));
  EXPECT_EQ(describe(p), "15x9x16 nn");
  // Here m is innermost of a, so that its batches do not follow its rows.
  p = product(layout(t, {3, 7, 16}, {0, 2, 1}), layout(t, {3, 16, 9}, {}, 0, {0}), layout(t, {3, 7, 9}));
  EXPECT_EQ(describe(p), "3 x 7x9x16 tn");
}

TEST(LibrariesBlasProduct, BatchesBecomeOneDimensionOrALoop) {
  const DType t = DType::BF16;
  BlasProduct p =
      product(layout(t, {4, 12, 128, 64}), layout(t, {4, 12, 64, 128}, {0, 1, 3, 2}), layout(t, {4, 12, 128, 128}));
  EXPECT_EQ(describe(p), "48 x 128x128x64 nt");
  p = product(layout(t, {4, 12, 128, 64}, {0, 2, 1, 3}), layout(t, {4, 12, 64, 128}, {0, 3, 1, 2}),
              layout(t, {4, 12, 128, 128}));
  EXPECT_EQ(describe(p), "4 calls of 12 x 128x128x64 nt");
  EXPECT_EQ(p.d.batch_step, 128 * 128);
  EXPECT_EQ(p.outer[0].d, 12 * 128 * 128);
  EXPECT_EQ(p.a.leading, 12 * 64);
}

TEST(LibrariesBlasProduct, VectorsAreOneColumn) {
  const DType t = DType::F32;
  BlasProduct p = product(layout(t, {300, 40}), layout(t, {40, 1}), layout(t, {300, 1}));
  EXPECT_EQ(p.n, 1);
  EXPECT_FALSE(p.swapped);
  p = product(layout(t, {300, 40}), layout(t, {40, 1}), layout(t, {300, 1}), true);  // the bias has one element
  EXPECT_EQ(p.m, 1);
  p = product(layout(t, {1, 40}), layout(t, {40, 300}), layout(t, {1, 300}));
  EXPECT_EQ(p.n, 1);
}

TEST(LibrariesBlasProduct, ReadsWhatIsContiguousAlongOneDimension) {
  const DType t = DType::F32;
  EXPECT_TRUE(blas_reads(layout(t, {5, 6})));
  EXPECT_TRUE(blas_reads(layout(t, {5, 6}, {1, 0}, 2)));
  EXPECT_TRUE(blas_reads(layout(t, {4, 5, 6}, {1, 0, 2})));
  EXPECT_TRUE(blas_reads(layout(t, {4, 5, 6}, {}, 0, {0})));
  EXPECT_TRUE(blas_reads({t, {1, 6}, {1, 3}}));
  EXPECT_TRUE(blas_reads({t, {6, 1}, {3, 0}}));
  EXPECT_FALSE(blas_reads({t, {5, 6}, {12, 2}}));
  EXPECT_FALSE(blas_reads({t, {5, 6}, {2, 1}}));  // rows overlap
  EXPECT_FALSE(blas_reads(layout(t, {5, 6}, {}, 0, {0})));
  EXPECT_FALSE(blas_reads(layout(t, {4, 5, 6}, {1, 2, 0})));  // the batch is innermost
  EXPECT_FALSE(blas_reads({t, {1, 6}, {1, 0}}));
}

// What reads and takes say is all that a product needs, and then it is right.
TEST(LibrariesBlasProduct, ExistsWhereverItsOperandsAreReadAndItsPostOpsTaken) {
  const DType t = DType::F32;
  const std::vector<std::vector<size_t>> orders{{0, 1, 2, 3}, {0, 1, 3, 2}, {1, 0, 2, 3}, {0, 2, 1, 3}, {3, 0, 1, 2},
                                                {0, 3, 1, 2}, {2, 0, 1, 3}, {2, 3, 0, 1}, {1, 3, 0, 2}};
  const std::vector<std::vector<size_t>> no_batches{{}, {0}, {1}, {0, 1}};
  std::mt19937 random(3);
  const auto any = [&](const auto& of) { return of[random() % of.size()]; };
  int products = 0;
  for (int i = 0; i < 20000; ++i) {
    const int64_t batch = any(std::array{1, 2}), m = any(std::array{1, 4}), n = any(std::array{1, 5}),
                  k = any(std::array{1, 3});
    MatmulCase c{"any", layout(t, {batch, 3, m, k}, any(orders), 0, any(no_batches)),
                 layout(t, {batch, 3, k, n}, any(orders), 0, any(no_batches)),
                 layout(t, {batch, 3, m, n}, any(orders))};
    if (random() % 2)
      c.ops.push_back({PostOp::Add, random() % 2 ? layout(t, {n}) : layout(t, {batch, 3, m, n}, any(orders))});
    const auto e = blas_epilogue(t, c.ops, c.out);
    if (blas_reads(c.a) && blas_reads(c.b) && e) {
      ++products;
      check(c);
    } else if (e) {
      EXPECT_FALSE(blas_product(c.a, c.b, c.out, e->addend ? &*e->addend : nullptr, e->bias));
    }
    if (HasFailure()) break;
  }
  EXPECT_GT(products, 1000);
}

}  // namespace
}  // namespace lazuli::lowering
