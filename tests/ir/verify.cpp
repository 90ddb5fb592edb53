// The verifier refuses graphs that break a rule.
#include "ir/verify.h"
#include "ir/error.h"
#include "tests/ir/support.h"

namespace lazuli::ir::testing {
namespace {

Graph good() {
  return parse("%0 : f32[2] = input [position=0]\n%1 : f32[2] = exp %0\n%2 : f32[2] = add %0, %1\nreturn %2\n");
}

TEST(Verify, AcceptsAGoodGraph) { EXPECT_NO_THROW(verify(good())); }

TEST(Verify, OperandsComeEarlier) {
  Graph g = good();
  g.nodes[1].inputs[0] = {2, 0};
  EXPECT_THROW(verify(g), InternalError);
}

TEST(Verify, OperandsNameAResult) {
  Graph g = good();
  g.nodes[1].inputs[0].result = 1;
  EXPECT_THROW(verify(g), InternalError);
}

TEST(Verify, TypesAreWhatTheRowInfers) {
  Graph g = good();
  g.nodes[2].types[0].dtype = DType::F64;
  EXPECT_THROW(verify(g), InternalError);
}

TEST(Verify, AttributesAreComplete) {
  Graph g = good();
  g.nodes[1].attrs.add(3);
  EXPECT_THROW(verify(g), InternalError);
}

TEST(Verify, OperandsFit) {
  Graph g = good();
  g.nodes[0].types[0].shape = {3};
  EXPECT_THROW(verify(g), InternalError);
}

TEST(Verify, OutputsAndInputsExist) {
  Graph g = good();
  g.outputs[0].node = 9;
  EXPECT_THROW(verify(g), InternalError);
  g = good();
  g.input_count = 0;
  EXPECT_THROW(verify(g), InternalError);
}

}  // namespace
}  // namespace lazuli::ir::testing
