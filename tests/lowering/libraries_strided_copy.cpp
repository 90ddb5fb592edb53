// Strided copies, element by element.
#include "lowering/libraries/strided_copy.h"
#include "tests/lowering/libraries_support.h"

namespace lazuli::lowering {
namespace {

using ir::Dims;
using ir::DType;
using testing::layout;
using testing::Tensor;

void check(const Layout& from, const Layout& to) {
  Tensor source = Tensor::random(from, 1, ir::is_signed(from.dtype) ? -100 : 0, 100), target(to);
  strided_copy(from, source.data(), to, target.data());
  EXPECT_TRUE(target.guards_hold());
  Tensor expected(to);
  expected.each([&](const Dims& at) { expected.set(at, source.get(at)); });
  target.each([&](const Dims& at) { EXPECT_EQ(target.get(at), expected.get(at)); });
}

const std::vector<std::vector<size_t>> kOrders{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

TEST(LibrariesStridedCopy, EveryPairOfOrders) {
  for (DType t : {DType::F32, DType::F64, DType::BF16, DType::I8})
    for (const auto& from : kOrders)
      for (const auto& to : kOrders)
        for (const Dims& shape : {Dims{3, 37, 50}, Dims{1, 5, 64}, Dims{33, 1, 48}, Dims{2, 0, 3}})
          check(layout(t, shape, from, 3), layout(t, shape, to));
}

TEST(LibrariesStridedCopy, SourceMayBeBroadcast) {
  check(layout(DType::F32, {5, 40, 33}, {}, 0, {1}), layout(DType::F32, {5, 40, 33}, {2, 1, 0}));
  check(layout(DType::F32, {5, 40, 33}, {}, 0, {0, 1, 2}), layout(DType::F32, {5, 40, 33}));
  for (DType t : {DType::F32, DType::BF16, DType::I8})
    check(layout(t, {7, 10001}, {}, 0, {0, 1}), layout(t, {7, 10001}));
}

TEST(LibrariesStridedCopy, FloatingTypesConvert) {
  for (DType from : {DType::F16, DType::BF16, DType::F32, DType::F64})
    for (DType to : {DType::F16, DType::BF16, DType::F32, DType::F64})
      check(layout(from, {20, 300}, {1, 0}), layout(to, {20, 300}));
}

TEST(LibrariesStridedCopy, ScalarsAndLargeTranspositions) {
  check(layout(DType::F32, {}), layout(DType::F32, {}));
  check(layout(DType::F32, {300, 200}, {1, 0}), layout(DType::F32, {300, 200}));
}

}  // namespace
}  // namespace lazuli::lowering
