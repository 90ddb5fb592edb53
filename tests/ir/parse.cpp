// Textual IR: what reads back, and what is refused with the line's number.
#include "ir/error.h"
#include "ir/hash.h"
#include "ir/print.h"
#include "tests/ir/support.h"

namespace lazuli::ir::testing {
namespace {

std::string error_of(const std::string& text) {
  try {
    parse(text);
  } catch (const ParseError& e) {
    return e.what();
  }
  return "no error";
}

TEST(Parse, RoundTripsEverything) {
  const std::string text =
      "%0 : bf16[2,3] = input [position=0]\n"
      "%1 : i64[] = scalar [position=0]\n"
      "%2 : f32[] = constant [value=-inf]\n"
      "%3 : f64[] = constant [value=0.1]\n"
      "%4 : i64[] = constant [value=-7]\n"
      "%5 : bool[2,3] = isnan %0 ; model.py:12\n"
      "%6 : bf16[2,3], %7 : f32[2,1], %8 : f32[2,1] = layer_norm %0, _, _, %2 [dims=1] ; model.py:13\n"
      "%9 : f32[2], %10 : opaque[] = external %0, _ [call=3]\n"
      "donated 0\n"
      "return %6, %5, %9\n";
  EXPECT_EQ(print(parse(text)), text);
}

TEST(Parse, NamesAreFreeAndCommentsAreSkipped) {
  Graph a = parse("# a comment\n\n%7 : f32[2] = input [position=0]\n  %9 : f32[2] = exp %7 ; a.py:1\nreturn %9\n");
  Graph b = parse("%0 : f32[2] = input [position=0]\n%1 : f32[2] = exp %0\nreturn %1\n");
  EXPECT_TRUE(same_structure(a, b));
  EXPECT_EQ(hash(a), hash(b));
}

// Two graphs of one hash are told apart by this alone.
TEST(SameStructure, TellsEveryPartApart) {
  const std::string base = "%0 : f32[2,3] = input [position=0]\n%1 : f32[2,1] = sum %0 [dims=1 keepdim=1]\n";
  const Graph graph = parse(base + "return %1\n");
  EXPECT_TRUE(same_structure(graph, parse(base + "return %1\n")));
  for (const std::string& other : {
           base + "return %1, %1\n",
           base + "donated 0\nreturn %1\n",
           std::string("%0 : f32[2,3] = input [position=0]\n%1 : f32[1,3] = sum %0 [dims=0 keepdim=1]\nreturn %1\n"),
           std::string("%0 : f32[2,3] = input [position=0]\n%1 : f32[2,1] = amax %0 [dims=1 keepdim=1]\nreturn %1\n"),
           std::string("%0 : f64[2,3] = input [position=0]\n%1 : f64[2,1] = sum %0 [dims=1 keepdim=1]\nreturn %1\n"),
           std::string("%0 : f32[2,3] = input [position=1]\n%1 : f32[2,1] = sum %0 [dims=1 keepdim=1]\nreturn %1\n"),
       })
    EXPECT_FALSE(same_structure(graph, parse(other))) << other;
  const std::string constant = "%0 : f32[] = constant [value=";
  EXPECT_FALSE(same_structure(parse(constant + "1.0]\nreturn %0\n"), parse(constant + "2.0]\nreturn %0\n")));
}

TEST(Parse, NanStaysNan) {
  Graph g = parse("%0 : f32[] = constant [value=nan]\nreturn %0\n");
  EXPECT_TRUE(std::isnan(interpret(g, {})[0].at(0)));
}

TEST(Parse, RefusesWithTheLine) {
  EXPECT_EQ(error_of("%0 : f32[2] = nonsense"), "line 1: unknown op 'nonsense'");
  EXPECT_EQ(error_of("\n%0 : f33[2] = iota [size=2]"), "line 2: unknown element type 'f33'");
  EXPECT_EQ(error_of("%1 : f32[2] = exp %0"), "line 1: %0 is not defined before its use");
  EXPECT_EQ(error_of("%0 : i64[2] = iota [size=x]"), "line 1: bad integer 'x'");
  EXPECT_EQ(error_of("%0 : i64[2] = iota [length=2]"), "line 1: expected attribute 'size', got 'length'");
  EXPECT_EQ(error_of("%0 : i64[2] = iota [size=2]\n%0 : i64[2] = iota [size=2]"), "line 2: %0 is defined twice");
  EXPECT_EQ(error_of("hello"), "line 1: expected a node, 'donated' or 'return', got 'hello'");
  EXPECT_EQ(error_of("donated 0"), "line 1: only inputs can be donated");
}

TEST(Parse, RefusesTypesThatTheRowDoesNotInfer) {
  std::string error = error_of("%0 : f32[2] = input [position=0]\n%1 : f32[3] = exp %0");
  EXPECT_TRUE(error.starts_with("line 2: exp has type f32[3] where its row infers f32[2]")) << error;
}

}  // namespace
}  // namespace lazuli::ir::testing
