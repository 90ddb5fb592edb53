// Operands that do not fit raise TypeError in torch's own words.
#include "ir/error.h"
#include "ir/infer.h"
#include "tests/ir/support.h"

namespace lazuli::ir::testing {
namespace {

struct BadApplication {
  Op op;
  std::vector<Type> operands;
  Attrs attrs;
  const char* message;
};

std::string message_of(const BadApplication& a) {
  std::vector<const Type*> in;
  for (const Type& t : a.operands) in.push_back(&t);
  std::vector<Type> out(static_cast<size_t>(std::max(info(a.op).results, 1)));
  try {
    infer(a.op, in, a.attrs, out);
  } catch (const TypeError& e) {
    return e.what();
  }
  return "no error";
}

constexpr DType F = DType::F32, I = DType::I64;

TEST(InferErrors, SayWhatTorchSays) {
  Attrs conv{{1, 1}, {0, 0}, {1, 1}, {0}, {0, 0}, {1}};
  const std::vector<BadApplication> cases = {
      {Op::add,
       {{F, {3}}, {F, {4}}},
       {},
       "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 0"},
      {Op::add,
       {{F, {2, 3}}, {F, {2}}},
       {},
       "The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 1"},
      {Op::matmul, {{F, {2, 3}}, {F, {4, 5}}}, {}, "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"},
      {Op::matmul,
       {{F, {2, 3, 4}}, {F, {2, 3, 4}}},
       {},
       "Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: [2, 3]."},
      {Op::sum, {{F, {3}}}, {{2}, {0}}, "Dimension out of range (expected to be in range of [-1, 0], but got 2)"},
      {Op::sum, {{F, {2, 3}}}, {{0, 0}, {0}}, "dim 0 appears multiple times in the list of dims"},
      {Op::amax,
       {{F, {0}}},
       {{0}, {0}},
       "amax(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the "
       "'dim' argument."},
      {Op::reshape, {{F, {2, 3}}}, {{7}}, "shape '[7]' is invalid for input of size 6"},
      {Op::broadcast,
       {{F, {2, 3}}},
       {{4, 3}},
       "The expanded size of the tensor (4) must match the existing size (2) at non-singleton dimension 0.  Target "
       "sizes: [4, 3].  Tensor sizes: [2, 3]"},
      {Op::permute, {{F, {2, 3}}}, {{0, 0}}, "permute(): duplicate dims are not allowed."},
      {Op::flip, {{F, {2, 3}}}, {{0, 0}}, "dim 0 appears multiple times in the list of dims"},
      {Op::as_strided,
       {{F, {3}}},
       {{4}, {1}, {0}},
       "setStorage: sizes [4], strides [1], storage offset 0, and itemsize 4 requiring a storage size of 16 are out of "
       "bounds for storage of size 12"},
      {Op::cat,
       {{F, {2, 3}}, {F, {3, 4}}},
       {{0}},
       "Sizes of tensors must match except in dimension 0. Expected size 3 but got size 4 for tensor number 1 in the "
       "list."},
      {Op::cat, {{F, {2, 3}}, {F, {3}}}, {{0}}, "Tensors must have same number of dimensions: got 2 and 1"},
      {Op::gather,
       {{F, {2, 3}}, {I, {2}}},
       {{0}},
       "Index tensor must have the same number of dimensions as input tensor"},
      {Op::gather,
       {{F, {2, 3}}, {I, {2, 4}}},
       {{0}},
       "Size does not match at dimension 1 expected index [2, 4] to be no larger than self [2, 3] apart from dimension "
       "0"},
      {Op::index_select, {{F, {2, 3}}, {F, {2}}}, {{0}}, "index_select(): Expected dtype int32 or int64 for index"},
      {Op::index_add,
       {{F, {2, 3}}, {I, {4}}, {F, {3, 3}}},
       {{0}},
       "index_add_(): Number of indices (4) should be equal to source.size(dim): (3), for dim: 0"},
      {Op::convolution,
       {{F, {1, 3, 4, 4}}, {F, {2, 4, 3, 3}}},
       conv,
       "Given groups=1, weight of size [2, 4, 3, 3], expected input[1, 3, 4, 4] to have 4 channels, but got 3 channels "
       "instead"},
      {Op::convolution,
       {{F, {1, 3, 2, 2}}, {F, {2, 3, 3, 3}}},
       conv,
       "Calculated padded input size per channel: (2 x 2). Kernel size: (3 x 3). Kernel size can't be greater than "
       "actual input size"},
      {Op::max_pool2d,
       {{F, {1, 1, 2, 2}}},
       {{3, 3}, {3, 3}, {0, 0}, {1, 1}, {0}},
       "Given input size: (1x2x2). Calculated output size: (1x0x0). Output size is too small"},
      {Op::nll_loss,
       {{F, {2, 3}}, {I, {3}}, {F, {3}}},
       {{1}, {-100}},
       "Expected input batch_size (2) to match target batch_size (3)."},
      {Op::softmax, {{F, {2}}}, {{3}}, "Dimension out of range (expected to be in range of [-1, 0], but got 3)"},
      {Op::layer_norm,
       {{F, {2, 3}}, {F, {4}}, {F, {4}}, {F, {}}},
       {{1}},
       "Given normalized_shape=[4], expected input with shape [*, 4], but got input of size[2, 3]"},
      {Op::group_norm,
       {{F, {2, 4, 3}}, {F, {4}}, {F, {4}}, {F, {}}},
       {{3}, {0}},
       "Expected number of channels in input to be divisible by num_groups, but got input of shape [2, 4, 3] and "
       "num_groups=3"},
  };
  for (const BadApplication& c : cases) EXPECT_EQ(message_of(c), c.message) << name(c.op);
}

TEST(InferErrors, TypesHaveToAgree) {
  EXPECT_EQ(message_of({Op::add, {{F, {2}}, {I, {2}}}, {}, ""}), "add: operands have different types, f32 and i64");
  EXPECT_EQ(message_of({Op::sin, {{I, {2}}}, {}, ""}), "sin: expected a floating type, got i64");
  EXPECT_EQ(message_of({Op::where, {{I, {2}}, {F, {2}}, {F, {2}}}, {}, ""}),
            "where expected condition to be a boolean tensor, but got a tensor with dtype i64");
}

TEST(InferErrors, WrongArityIsOurBug) {
  Type t{F, {2}}, out;
  const Type* in[] = {&t};
  EXPECT_THROW(infer(Op::add, in, {}, {&out, 1}), InternalError);
  const Type* absent[] = {&t, nullptr};
  EXPECT_THROW(infer(Op::add, absent, {}, {&out, 1}), InternalError);
}

}  // namespace
}  // namespace lazuli::ir::testing
