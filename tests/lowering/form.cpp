// Linear forms through windows, of sizes with expressions.
#include <gtest/gtest.h>
#include "ir/size_table.h"
#include "lowering/index/linear_form.h"

namespace lazuli::lowering {
namespace {

// How a walk over a whole dimension goes through a window of two that it moves through in steps of their own.
Fit walk(ir::Size size, ir::Size dimension) {
  const Space space{{size}, 1};
  Form out;
  Split split;
  return through_window(kept_form(space), space, ir::Dims{2, dimension}, {{1, 3}, 0}, out, split);
}

TEST(Form, AWalkThroughSeveralDimensionsIsSplit) {
  ir::SizeTable table;
  const ir::Size n = table.symbol(4);
  const ir::SizeTable::Making making(table);
  EXPECT_EQ(walk(n * 2, n), Fit::NeedsSplit);
  EXPECT_EQ(walk(n, n), Fit::Yes);
}

// Else a fusion would be split without end.
TEST(Form, OfTwoSizesThatAreEqualByChanceOneAtMostGoesThroughTheOther) {
  ir::SizeTable table;
  const ir::Size a = table.symbol(2), b = table.symbol(2), c = table.symbol(4);  // as an example: 6, 10 and 28
  const ir::SizeTable::Making making(table);
  for (ir::Size n : {a * 5 - b * 3, b * 2, a + 2, c / 2 * 2}) {
    const bool one_way = walk(n, c) == Fit::NeedsSplit, other_way = walk(c, n) == Fit::NeedsSplit;
    EXPECT_FALSE(one_way && other_way) << n.expression();
  }
}

}  // namespace
}  // namespace lazuli::lowering
