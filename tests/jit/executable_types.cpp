// Random graphs of every element type and of nothing, in which no order of computing rounds otherwise: what is compiled
// gives the interpreter's bits. LAZULI_FUZZ_SEEDS runs more of them.
#include "ir/print.h"
#include "tests/ir/fuzz.h"
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

int raised = 0;

void check(uint32_t seed, const jit::CompileOptions& options) {
  const ir::Graph graph = ir::testing::random_graph({.seed = seed, .nodes = 10, .exact = true});
  const std::vector<ir::Tensor> inputs = ir::testing::random_inputs(graph, seed);
  SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + ir::print(graph));
  TestHost host;
  std::vector<jit::Buffer> in;
  for (const ir::Tensor& t : inputs) in.push_back(buffer_of(host, t.data));
  auto e = jit::compile(graph, options);
  SCOPED_TRACE(e->plan_text());
  Ran r;
  try {
    r = run(*e, host, graph, in);
  } catch (const jit::ExecutionError&) {  // a division by zero, an index out of range: the interpreter gives numbers
    ++raised;
    return;
  }
  const std::vector<ir::Tensor> want = ir::interpret(graph, inputs);
  for (size_t o = 0; o < want.size(); ++o) {
    ir::Tensor got(want[o].type);
    if (!got.data.empty()) std::memcpy(got.data.data(), r.outputs[o].data, got.data.size());
    for (int64_t i = 0; i < got.type.numel(); ++i)
      ASSERT_EQ(got.at(i), want[o].at(i)) << "output " << o << ", element " << i;
  }
}

using ir::testing::seeds;

TEST(ExecutableTypes, CompiledGraphsGiveTheInterpretersBits) {
  for (uint32_t s = 1; s <= seeds(60) && !HasFailure(); ++s) check(s, {});
}

TEST(ExecutableTypes, SoDoInterpretedKernels) {
  jit::CompileOptions o;
  o.interpret_kernels = true;
  for (uint32_t s = 1000; s <= 1000 + seeds(300) && !HasFailure(); ++s) check(s, o);
}

TEST(ExecutableTypes, SoDoUnfusedKernels) {
  jit::CompileOptions o;
  o.interpret_kernels = true;
  o.fusion = false;
  for (uint32_t s = 5000; s <= 5000 + seeds(100) && !HasFailure(); ++s) check(s, o);
}

}  // namespace
}  // namespace lazuli::testing
