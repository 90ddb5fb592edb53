// Running sums against one addition at a time.
#include "lowering/libraries/scan.h"
#include "tests/lowering/libraries_support.h"

namespace lazuli::lowering {
namespace {

using ir::Dims;
using ir::DType;
using testing::layout;
using testing::Tensor;

void check(DType t, const Dims& shape, int64_t dim, std::vector<size_t> order, bool in_place) {
  const bool floating = ir::is_floating(t);
  Tensor x = Tensor::random(layout(t, shape, order), 1, floating ? -1 : 0, floating ? 1 : 3), out(layout(t, shape)),
         input = x;
  Tensor sums(layout(DType::F64, shape));
  sums.each([&](const Dims& at) {
    Dims before = at;
    if (--before[dim] < 0)
      sums.set(at, input.get(at));
    else
      sums.set(at, sums.get(before) + input.get(at));
  });
  Tensor& result = in_place ? x : out;
  testing::run(*make_cumsum(x.layout, result.layout, dim), {&x}, {&result});
  testing::expect_close(result, [&](const Dims& at) { return sums.get(at); }, floating ? 4 : 0, "cumsum");
}

TEST(LibrariesScan, CumulativeSumAlongEveryDimension) {
  for (DType t : {DType::I32, DType::I64, DType::F16, DType::BF16, DType::F32, DType::F64})
    for (int64_t dim : {0, 1, 2})
      for (bool in_place : {false, true}) {
        check(t, {5, 30, 70}, dim, {}, in_place);
        check(t, {5, 30, 70}, dim, {2, 0, 1}, in_place);
        check(t, {0, 3, 2}, dim, {}, in_place);
      }
}

}  // namespace
}  // namespace lazuli::lowering
