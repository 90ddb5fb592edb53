// Products of bytes that are added up in int32, by a library and by our own code, in every layout.
#include "lowering/libraries/onednn.h"
#include "tests/lowering/products.h"

namespace lazuli::lowering {
namespace {

using ir::DType;
using testing::layout;
using testing::run;
using testing::Tensor;

template <Effort effort>
std::unique_ptr<LibraryCall> make(const Layout& a, const Layout& b, const Layout& out, std::span<const PostOp>) {
  return make_int_mm(a, b, out, effort);
}

void check(const Layout& a, const Layout& b, const Layout& out) {
  testing::check_product(make<Effort::Much>, a, b, out);
  testing::check_product(make<Effort::Little>, a, b, out);
}

TEST(LibrariesIntMm, EverySizeAndOrder) {
  for (DType left : {DType::I8, DType::U8})
    for (auto [m, n, k] :
         {std::array{1, 1, 1}, {1, 67, 33}, {67, 1, 33}, {37, 41, 1}, {129, 65, 257}, {0, 3, 2}, {3, 2, 0}})
      for (bool turned : {false, true}) {
        const std::vector<size_t> order = turned ? std::vector<size_t>{1, 0} : std::vector<size_t>{0, 1};
        check(layout(left, {m, k}, order), layout(DType::I8, {k, n}), layout(DType::I32, {m, n}));
        check(layout(left, {m, k}), layout(DType::I8, {k, n}, order), layout(DType::I32, {m, n}));
        check(layout(left, {m, k}, order, 2), layout(DType::I8, {k, n}, order, 2), layout(DType::I32, {m, n}));
      }
}

// The largest products, of which the sum of two does not fit into int16.
TEST(LibrariesIntMm, Extremes) {
  for (DType left : {DType::I8, DType::U8}) {
    Tensor a(layout(left, {8, 1024})), b(layout(DType::I8, {1024, 64})), out(layout(DType::I32, {8, 64}));
    const double largest = left == DType::I8 ? -128 : 255;
    a.each([&](const ir::Dims& at) { a.set(at, largest); });
    b.each([&](const ir::Dims& at) { b.set(at, -128); });
    const auto expect = [&] { out.each([&](const ir::Dims& at) { ASSERT_EQ(out.get(at), largest * -128 * 1024); }); };
    for (Effort effort : {Effort::Much, Effort::Little}) {
      run(*make_int_mm(a.layout, b.layout, out.layout, effort), {&a, &b}, {&out});
      expect();
    }
  }
}

}  // namespace
}  // namespace lazuli::lowering
