// Small graphs at the corners of conditions in fusion and planning, compiled and compared with the interpreter.
#include "ir/interpret.h"
#include "ir/parse.h"
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

// Numbers for inputs that are no indices.
ir::Tensor numbers(const ir::Type& type, uint32_t seed) {
  const Floats random = random_floats(type.numel(), seed, 0.1f, 1);
  const std::vector<double> values(random.begin(), random.end());
  return ir::Tensor(type, values);
}

struct Corner {
  ir::Graph graph;
  std::vector<ir::Tensor> inputs;
  TestHost host;

  explicit Corner(const std::string& text) : graph(ir::parse(text)) {
    for (const ir::Node& n : graph.nodes)
      if (n.op == ir::Op::input) inputs.push_back(numbers(n.types[0], static_cast<uint32_t>(inputs.size() + 1)));
  }
  void set(size_t input, std::vector<double> values) { inputs[input] = ir::Tensor(inputs[input].type, values); }

  std::vector<jit::Buffer> compiled(bool donate) {
    graph.donated.assign(donate ? inputs.size() : 0, true);
    std::vector<jit::Buffer> in;
    for (const ir::Tensor& t : inputs) in.push_back(buffer_of(host, t.data));
    return run(*jit::compile(graph, {}), host, graph, in, {}, donate).outputs;
  }
  void check(bool donate = false) {
    const std::vector<ir::Tensor> want = ir::interpret(graph, inputs);
    const std::vector<jit::Buffer> got = compiled(donate);
    for (size_t i = 0; i < want.size(); ++i) {
      ir::Tensor t(want[i].type);
      std::memcpy(t.data.data(), got[i].data, t.data.size());
      for (int64_t k = 0; k < t.type.numel(); ++k)
        ASSERT_NEAR(t.at(k), want[i].at(k), 1e-5 * (1 + std::abs(want[i].at(k))))
            << "result " << i << ", element " << k;
    }
  }
};

TEST(Corners, AnIndexIntoWhatAnIndexHasRead) {
  Corner c(
      "%0 : f32[6,3] = input [position=0]\n%1 : i64[4] = input [position=1]\n%2 : i64[5] = input [position=2]\n"
      "%3 : f32[4,3] = index_select %0, %1 [dim=0]\n%4 : f32[5,3] = index_select %3, %2 [dim=0]\n"
      "%5 : f32[5,3] = exp %4\nreturn %5");
  c.set(1, {5, 0, 3, 1});
  c.set(2, {3, 3, 0, 1, 2});
  c.check();
  Corner across(
      "%0 : f32[6,3] = input [position=0]\n%1 : i64[4] = input [position=1]\n%2 : i64[5] = input [position=2]\n"
      "%3 : f32[4,3] = index_select %0, %1 [dim=0]\n%4 : f32[4,5] = index_select %3, %2 [dim=1]\n"
      "%5 : f32[4,5] = exp %4\nreturn %5");
  across.set(1, {5, 0, 3, 1});
  across.set(2, {2, 2, 0, 1, 2});
  across.check();
}

// All rows are the same, so that nothing read depends on the index.
TEST(Corners, AnIndexIntoABroadcastOperandIsChecked) {
  Corner c(
      "%0 : f32[1,3] = input [position=0]\n%1 : i64[2] = input [position=1]\n"
      "%2 : f32[4,3] = broadcast %0 [shape=[4,3]]\n%3 : f32[2,3] = index_select %2, %1 [dim=0]\n"
      "%4 : f32[2,3] = exp %3\nreturn %4");
  c.set(1, {3, 0});
  c.check();
  c.set(1, {0, 4});
  EXPECT_THROW(c.compiled(false), jit::ExecutionError);
}

// Places in a slice of each row, of which the last is the first of the next row.
TEST(Corners, AWindowThatCarriesIntoTheNextRow) {
  Corner c(
      "%0 : f32[2,8] = input [position=0]\n%1 : f32[2,7] = slice %0 [starts=[0,0] sizes=[2,7] steps=[1,1]]\n"
      "%2 : f32[4,4] = as_strided %1 [shape=[4,4] strides=[1,1] offset=1]\n%3 : f32[4,4] = exp %2\nreturn %3");
  c.check();
}

TEST(Corners, APartOfAFlattenedSliceThatEndsWithinARow) {
  Corner c(
      "%0 : f32[2,4] = input [position=0]\n%1 : f32[2,3] = slice %0 [starts=[0,0] sizes=[2,3] steps=[1,1]]\n"
      "%2 : f32[6] = reshape %1 [shape=6]\n%3 : f32[4] = slice %2 [starts=0 sizes=4 steps=1]\n"
      "%4 : f32[4] = exp %3\nreturn %4");
  c.check();
}

TEST(Corners, AProductThatIsAResultBesideWhatFollowsIt) {
  Corner c(
      "%0 : f32[4,8] = input [position=0]\n%1 : f32[8,6] = input [position=1]\n"
      "%2 : f32[4,6] = matmul %0, %1\n%3 : f32[4,6] = tanh %2\nreturn %2, %3");
  c.check();
}

// The last kernel could run with the first, but that the product reads what it overwrites.
TEST(Corners, AKernelDoesNotMoveBeforeWhatReadsItsOperand) {
  Corner c(
      "%0 : f32[8,8] = input [position=0]\n%1 : f32[8,8] = input [position=1]\n"
      "%2 : f32[8,8] = exp %0\n%3 : f32[8,8] = matmul %2, %1\n%4 : f32[8,8] = exp %1\nreturn %2, %3, %4");
  c.check(true);
}

// What is written over a part of %3 runs after the kernel that %3 has become one with, and that waits for the sum: so
// the sum may not join it.
TEST(Corners, AKernelWaitsForAllThatThePlaceItWritesToHasMergedWith) {
  Corner c(
      "%0 : f32[8,17] = input [position=0]\n%1 : f32[8,1] = input [position=1]\n%2 : f32[8,32] = input [position=2]\n"
      "%3 : f32[8,17] = exp %0\n%4 : f32[8,1] = exp %1\n"
      "%5 : f32[8,17] = as_strided_scatter %3, %4 [strides=[17,1] offset=16]\n%6 : f32[8,1] = sin %1\n"
      "%7 : f32[8,1] = sum %2 [dims=1 keepdim=1]\n%8 : f32[8,17] = broadcast %7 [shape=[8,17]]\n"
      "%9 : f32[8,17] = mul %0, %8\n%10 : f32[8,1] = add %6, %7\nreturn %5, %9, %10, %6");
  c.check();
}

// The bytes of a value that is computed beside what reads them.
TEST(Corners, TheBytesOfWhatIsComputedHere) {
  Corner c(
      "%0 : f32[8] = input [position=0]\n%1 : f32[8] = exp %0\n%2 : i32[8] = bitcast %1 [dtype=i32 shape=8]\n"
      "%3 : i32[] = constant [value=1]\n%4 : i32[8] = add %2, %3\n%5 : f32[8] = mul %1, %0\nreturn %1, %4, %5");
  c.check();
}

}  // namespace
}  // namespace lazuli::testing
