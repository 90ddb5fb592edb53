// Products with numbers of 4 bits, in every order in which torch packs them, against float64.
#include "lowering/libraries/product/int4_mm.h"
#include "tests/lowering/libraries_support.h"

namespace lazuli::lowering {
namespace {

using ir::DType;
using testing::layout;
using testing::run;
using testing::Tensor;

// Which byte of [N, K/2] has the number, and whether in its high half.
std::pair<int64_t, bool> place(const Int4Params& p, int64_t n, int64_t k, int64_t row, int64_t l) {
  const int64_t first = row / p.block * p.block, rows = std::min(p.block, n - first), in = row - first;
  const bool apart = !p.paired && rows == p.block;
  const int64_t byte = apart ? in % (rows / 2) : in / 2;
  return {first * k / 2 + l * (rows / 2) + byte, apart ? in >= rows / 2 : in % 2 == 1};
}

void check(DType type, int64_t m, int64_t n, int64_t k, const Int4Params& p) {
  SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k) + ", blocks of " +
               std::to_string(p.block) + (p.paired ? " in pairs" : ""));
  Tensor x = Tensor::random(layout(type, {m, k}), 1), scales = Tensor::random(layout(type, {k / p.group, n, 2}), 2);
  Tensor bytes = Tensor::random(layout(DType::U8, {n, k / 2}), 3, 0, 256), out(layout(type, {m, n}));
  const auto call = make_int4_mm(x.layout, bytes.layout, scales.layout, out.layout, p);
  run(*call, {&x, &bytes, &scales}, {&out});
  const double tolerance = type == DType::F32 ? 1e-6 : type == DType::F16 ? 1e-3 : 8e-3;
  out.each([&](const ir::Dims& at) {
    double sum = 0, most = 0;
    for (int64_t l = 0; l < k; ++l) {
      const auto [byte, high] = place(p, n, k, at[1], l);
      const int both = static_cast<int>(bytes.get({byte / (k / 2), byte % (k / 2)})),
                q = (high ? both >> 4 : both) & 15;
      const double scale = scales.get({l / p.group, at[1], 0}), zero = scales.get({l / p.group, at[1], 1});
      sum += x.get({at[0], l}) * ((q - 8) * scale + zero);
      most += std::abs(x.get({at[0], l})) * (std::abs(8 * scale) + std::abs(zero));
    }
    EXPECT_NEAR(out.get(at), sum, tolerance * most);
  });
  EXPECT_TRUE(out.guards_hold());
}

TEST(LibrariesInt4Mm, EverySizeAndOrder) {
  for (const auto& [block, paired] : {std::pair{64, false}, {32, false}, {32, true}})
    for (int64_t m : {1, 2, 3, 4, 6})
      for (int64_t n : {2, 16, 48, 64, 160}) check(DType::F32, m, n, 96, {32, block, paired});
  for (DType type : {DType::BF16, DType::F16}) check(type, 3, 112, 128, {64, 64, false});
}

// Enough of it for several threads.
TEST(LibrariesInt4Mm, Large) { check(DType::F32, 1, 1024, 768, {256, 64, false}); }

TEST(LibrariesInt4Mm, OfNothing) {
  const auto call = make_int4_mm(layout(DType::F32, {0, 64}), layout(DType::U8, {32, 32}),
                                 layout(DType::F32, {1, 32, 2}), layout(DType::F32, {0, 32}), {64, 64, false});
  Tensor none(layout(DType::F32, {0, 32}));
  run(*call, {&none, &none, &none}, {&none});
}

}  // namespace
}  // namespace lazuli::lowering
