// The graph builder shares equal pure nodes, and shorthands do nothing where there is nothing to do.
#include "ir/builder.h"
#include "tests/ir/support.h"

namespace lazuli::ir::testing {
namespace {

TEST(GraphBuilder, SharesEqualNodes) {
  Graph g;
  GraphBuilder b(g);
  Value x = b.input({DType::F32, {2, 3}});
  EXPECT_EQ(b.add(x, 1.0), b.add(x, 1.0));
  EXPECT_NE(b.add(x, 1.0), b.add(x, 2.0));
  EXPECT_NE(b.constant(1, DType::F32), b.constant(1, DType::F64));
  EXPECT_NE(b.constant(0.0, DType::F32), b.constant(-0.0, DType::F32));
}

TEST(GraphBuilder, KeepsWhatIsNotPureApart) {
  Graph g;
  GraphBuilder b(g);
  Type type{DType::F32, {2}};
  EXPECT_NE(b.input(type), b.input(type));
  for (Op op : {Op::uninitialized, Op::external}) {
    Attrs attrs{{2}};
    EXPECT_NE(b.emit(op, {}, attrs, {&type, 1}), b.emit(op, {}, attrs, {&type, 1}));
  }
}

TEST(GraphBuilder, SharesAmongManyNodes) {
  Graph g;
  GraphBuilder b(g);
  Value x = b.input({DType::F32, {}});
  for (int i = 0; i < 1000; ++i) b.add(x, i);
  size_t count = g.nodes.size();
  for (int i = 0; i < 1000; ++i) b.add(x, i);
  EXPECT_EQ(g.nodes.size(), count);
}

TEST(GraphBuilder, ShorthandsThatChangeNothing) {
  Graph g;
  GraphBuilder b(g);
  Value x = b.input({DType::F32, {2, 3}});
  EXPECT_EQ(b.reshape(x, Dims{2, 3}), x);
  EXPECT_EQ(b.permute(x, Dims{0, 1}), x);
  EXPECT_EQ(b.broadcast(x, Dims{2, 3}), x);
  EXPECT_EQ(b.convert(x, DType::F32), x);
  EXPECT_EQ(b.sum_to(x, Dims{2, 3}), x);
  EXPECT_EQ(to_string(b.type(b.sum_to(x, Dims{1, 3}))), "f32[1,3]");
  EXPECT_EQ(to_string(b.type(b.sum_to(x, Dims{}))), "f32[]");
  EXPECT_EQ(to_string(b.type(b.transpose(x))), "f32[3,2]");
}

}  // namespace
}  // namespace lazuli::ir::testing
