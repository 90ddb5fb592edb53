// Types and shapes where torch's rule has a corner.
#include "ir/error.h"
#include "ir/infer.h"
#include "tests/ir/support.h"

namespace lazuli::ir::testing {
namespace {

Type infer_one(Op op, const std::vector<Type>& operands, const Attrs& attrs) {
  std::vector<const Type*> in;
  for (const Type& t : operands) in.push_back(&t);
  std::vector<Type> out(static_cast<size_t>(std::max(info(op).results, 1)));
  infer(op, in, attrs, out);
  return out[0];
}

constexpr DType F = DType::F32;

// torch.promote_types.
TEST(InferShapes, PromotionFollowsTorch) {
  struct {
    DType a, b, both;
  } const table[] = {
      {DType::Bool, DType::U8, DType::U8},   {DType::U8, DType::I8, DType::I16},
      {DType::U8, DType::I16, DType::I16},   {DType::I8, DType::I64, DType::I64},
      {DType::I64, DType::F16, DType::F16},  {DType::F16, DType::BF16, DType::F32},
      {DType::BF16, DType::F32, DType::F32}, {DType::F32, DType::F64, DType::F64},
      {DType::I8, DType::I8, DType::I8},
  };
  for (const auto& row : table) {
    EXPECT_EQ(promote_types(row.a, row.b), row.both) << name(row.a) << " and " << name(row.b);
    EXPECT_EQ(promote_types(row.b, row.a), row.both) << name(row.b) << " and " << name(row.a);
  }
}

TEST(InferShapes, ASliceEndsWithinItsDimension) {
  const std::vector<Type> x{{F, {5}}};
  EXPECT_EQ(infer_one(Op::slice, x, {{1}, {2}, {3}}).shape, Dims{2});
  EXPECT_ANY_THROW(infer_one(Op::slice, x, {{2}, {2}, {3}}));
  EXPECT_ANY_THROW(infer_one(Op::slice, x, {{5}, {1}, {1}}));
  EXPECT_EQ(infer_one(Op::slice, x, {{5}, {0}, {1}}).shape, Dims{0});
}

TEST(InferShapes, TransposedConvolutions) {
  const std::vector<Type> operands{{F, {1, 4, 5, 5}}, {F, {4, 3, 3, 3}}};  // of two groups
  EXPECT_EQ(infer_one(Op::convolution, operands, {{2, 2}, {1, 1}, {1, 1}, {1}, {0, 0}, {2}}).shape, (Dims{1, 6, 9, 9}));
  EXPECT_EQ(infer_one(Op::convolution, operands, {{2, 2}, {1, 1}, {1, 1}, {1}, {1, 0}, {2}}).shape,
            (Dims{1, 6, 10, 9}));
}

TEST(InferShapes, APoolingWindowBeginsWithinTheInput) {
  auto pooled = [](int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t ceil_mode) {
    const Attrs attrs{{kernel, 1}, {stride, 1}, {padding, 0}, {1, 1}, {ceil_mode}};
    return infer_one(Op::max_pool2d, {{F, {1, 1, size, 1}}}, attrs).shape[2];
  };
  EXPECT_EQ(pooled(4, 2, 3, 0, 0), 1);
  EXPECT_EQ(pooled(4, 2, 3, 0, 1), 2);
  EXPECT_EQ(pooled(3, 1, 3, 0, 1), 1);  // the second would begin at 3
  EXPECT_EQ(pooled(5, 2, 3, 1, 1), 2);  // and here at 6, with the padding
}

}  // namespace
}  // namespace lazuli::ir::testing
