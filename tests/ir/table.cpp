// What every row of the op table has to have.
#include <set>
#include <sstream>
#include "ir/body.h"
#include "ir/op.h"
#include "ir/rounding.h"
#include "tests/ir/support.h"

namespace lazuli::ir::testing {
namespace {

TEST(Table, NamesAreUniqueAndParse) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < kOpCount; ++i) {
    Op op;
    EXPECT_TRUE(names.insert(kOps[i].name).second) << kOps[i].name;
    ASSERT_TRUE(parse_op(kOps[i].name, op));
    EXPECT_EQ(op, static_cast<Op>(i));
  }
  Op op;
  EXPECT_FALSE(parse_op("nonsense", op));
}

TEST(Table, RowsSayWhatTheirKindNeeds) {
  for (const OpInfo& row : kOps) {
    SCOPED_TRACE(std::string(row.name));
    EXPECT_FALSE(row.doc.empty());
    EXPECT_EQ(static_cast<bool>(row.body), row.kind == Kind::Elementwise);
    if (row.kind == Kind::Elementwise) {
      EXPECT_EQ(row.body.arity, row.arity);
    }
    if (row.kind == Kind::View) {
      EXPECT_NE(row.window, nullptr);
    }
    if (row.kind == Kind::Composite) {
      EXPECT_TRUE(row.decompose || row.derivative_of != kNoOp);
    }
    bool interprets = row.kind == Kind::Index || row.kind == Kind::Contraction || row.kind == Kind::Window;
    EXPECT_EQ(row.interpret != nullptr, interprets);
  }
}

// Derivatives become graphs: each primitive needs a row, except those that are leaves or discrete by themselves.
TEST(Table, PrimitivesHaveRows) {
  for (Prim p : {Prim::add, Prim::sub, Prim::mul, Prim::div, Prim::pow, Prim::fma, Prim::neg, Prim::select, Prim::exp,
                 Prim::rsqrt, Prim::floordiv, Prim::trunc, Prim::eq, Prim::lt, Prim::le, Prim::bit_and, Prim::bit_or}) {
    SCOPED_TRACE(info(p).name);
    EXPECT_NE(row_of(p), kNoOp);
  }
  EXPECT_EQ(row_of(Prim::select), Op::where);
  EXPECT_EQ(row_of(Prim::sinh), Op::sinh);
}

// What is exact follows from the row: from its formula, from what it folds by, from whether it adds up.
TEST(Table, RowsSayWhereTheyRound) {
  for (Op op : {Op::neg,      Op::abs,    Op::sign,           Op::minimum,
                Op::fmax,     Op::clamp,  Op::relu,           Op::threshold_backward,
                Op::hardtanh, Op::where,  Op::copysign,       Op::round,
                Op::eq,       Op::detach, Op::random_uniform, Op::amax,
                Op::argmin,   Op::gather, Op::scatter,        Op::index_copy,
                Op::cat,      Op::pad,    Op::max_pool2d,     Op::permute,
                Op::iota})
    EXPECT_TRUE(is_exact(op)) << name(op);
  for (Op op : {Op::convert,    Op::add,
                Op::mul,        Op::frac,
                Op::sigmoid,    Op::leaky_relu,
                Op::remainder,  Op::sum,
                Op::prod,       Op::scatter_add,
                Op::index_add,  Op::cumsum,
                Op::cumprod,    Op::linear_recurrence,
                Op::avg_pool2d, Op::max_pool2d_grad,
                Op::matmul,     Op::convolution,
                Op::attention,  Op::softmax,
                Op::external})
    EXPECT_FALSE(is_exact(op)) << name(op);
}

TEST(Table, RowsSayWhereEverybodyRoundsAlike) {
  for (Op op : {Op::add, Op::mul, Op::div, Op::sqrt, Op::convert, Op::neg, Op::random_uniform, Op::permute})
    EXPECT_TRUE(is_rounded_once(op)) << name(op);
  for (Op op : {Op::log1p, Op::cos, Op::pow, Op::add_scaled, Op::sum, Op::matmul})
    EXPECT_FALSE(is_rounded_once(op)) << name(op);
}

TEST(Table, RowsThatAddUpSayHowMuch) {
  for (const OpInfo& row : kOps)
    if (row.kind == Kind::Contraction) {
      EXPECT_NE(row.terms, nullptr) << row.name;
    }
  const Type rows{DType::F32, {4, 6}}, columns{DType::F32, {6, 3}}, product{DType::F32, {4, 3}}, sums{DType::F32, {4}};
  const Type* both[] = {&rows, &columns};
  EXPECT_EQ(terms(Op::matmul, both, {}, product), 6);
  EXPECT_EQ(terms(Op::sum, std::span(both, 1), {{1}, {0}}, sums), 6);
  EXPECT_EQ(terms(Op::cumsum, std::span(both, 1), {{1}}, rows), 6);
  EXPECT_EQ(terms(Op::amax, std::span(both, 1), {{1}, {0}}, sums), 0);
  EXPECT_EQ(terms(Op::exp, std::span(both, 1), {}, rows), 0);
}

// Each name of an ATen operator records one row.
TEST(Table, AtenNamesAreUnique) {
  std::set<std::string> names;
  for (const OpInfo& row : kOps) {
    std::istringstream words{std::string(row.aten)};
    for (std::string word; words >> word;) EXPECT_TRUE(names.insert(word).second) << word;
  }
}

}  // namespace
}  // namespace lazuli::ir::testing
