// What every row of the op table has to have.
#include <set>
#include <sstream>
#include "ir/body.h"
#include "ir/op.h"
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
