// Random nests: compiled code against the interpreter, bit for bit, on every kind of CPU that this machine can run.
#include <gtest/gtest.h>

#include "jit/compiler.h"
#include "tests/lowering/random_nest.h"

namespace lazuli {
namespace {

class RandomNests : public ::testing::TestWithParam<const char*> {};

void compare(const char* cpu, bool tiled, uint64_t seeds) {
  jit::Compiler compiler(cpu);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    using testing::RandomNest;
    RandomNest random = tiled ? RandomNest(seed, RandomNest::Tiled()) : RandomNest(seed);
    const lowering::LoopNest& nest = random.nest();
    const std::string symbol = "random" + std::to_string(seed);
    const lowering::KernelFn kernel = compiler.load(compiler.compile(nest, symbol));
    for (int64_t size : {0, 1, 15, 16, 17, 33, tiled ? 70 : 1000}) {
      testing::NestMemory expected = random.memory(size), actual = random.copy(expected);
      const int64_t units = lowering::units(nest, expected.args());
      const int64_t middle = units / 3;
      lowering::interpret(nest, expected.args(), 0, units);
      kernel(actual.args(), 0, middle);
      kernel(actual.args(), middle, units);
      const std::string difference = actual.difference(expected);
      ASSERT_EQ(difference, "") << "seed " << seed << " size " << size << "\n"
                                << nest.print() << compiler.ir_text(nest, symbol);
    }
  }
}

TEST_P(RandomNests, AgreeWithTheInterpreter) { compare(GetParam(), false, 150); }
TEST_P(RandomNests, TiledOnesToo) { compare(GetParam(), true, 120); }

INSTANTIATE_TEST_SUITE_P(Cpus, RandomNests, ::testing::Values("", "avx2"),
                         [](const auto& cpu) { return *cpu.param ? std::string(cpu.param) : std::string("native"); });

}  // namespace
}  // namespace lazuli
