// Random nests: compiled code of both kinds and bytecode against the interpreter, bit for bit, on every kind of CPU
// that this machine can run.
#include <gtest/gtest.h>

#include "jit/kernels/compiler.h"
#include "tests/lowering/random_nest.h"

namespace lazuli {
namespace {

class RandomNests : public ::testing::TestWithParam<const char*> {};

using testing::RandomNest;

template <class... Kind>
void compare(const char* cpu, uint64_t seeds, Kind... kind) {
  constexpr bool tiled = (std::is_same_v<Kind, RandomNest::Tiled> || ...);
  constexpr bool heavy = (std::is_same_v<Kind, RandomNest::Heavy> || ...);
  jit::Compiler compiler(cpu);
  int row_by_row = 0;
  uint64_t interpreted = 0;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    RandomNest random(seed, kind...);
    const lowering::LoopNest& nest = random.nest();
    const std::string symbol = "random" + std::to_string(seed);
    if (heavy) row_by_row += compiler.ir_text(nest, symbol).find("columns") != std::string::npos;
    const jit::LoadedKernel kernels[] = {compiler.load(compiler.compile(nest, symbol, jit::CodeKind::SoonMade)),
                                         compiler.load(compiler.compile(nest, symbol, jit::CodeKind::Fast))};
    const std::unique_ptr<const jit::bytecode::Program> bytecode = compiler.bytecode(nest);
    interpreted += bytecode != nullptr;
    for (int64_t size : {0, 1, 15, 16, 17, 33, tiled ? 70 : 1000}) {
      testing::NestMemory expected = random.memory(size);
      testing::NestMemory actual[] = {random.copy(expected), random.copy(expected)};
      testing::NestMemory by_bytecode = random.copy(expected);
      const int64_t units = lowering::units(nest, expected.args());
      const int64_t middle = units / 3;
      lowering::interpret(nest, expected.args(), 0, units);
      for (size_t k = 0; k < 2; ++k) {
        kernels[k](actual[k].args(), 0, middle);
        kernels[k](actual[k].args(), middle, units);
        ASSERT_EQ(actual[k].difference(expected), "") << "seed " << seed << " size " << size << " kind " << k << "\n"
                                                      << nest.print() << compiler.ir_text(nest, symbol);
      }
      if (!bytecode) continue;
      bytecode->run(by_bytecode.args(), 0, middle);
      bytecode->run(by_bytecode.args(), middle, units);
      ASSERT_EQ(by_bytecode.difference(expected), "") << "seed " << seed << " size " << size << " in bytecode\n"
                                                      << nest.print() << compiler.ir_text(nest, symbol);
    }
  }
  EXPECT_GT(interpreted, seeds / 5);
  if (heavy) {
    EXPECT_GT(row_by_row, 40);
  }
}

TEST_P(RandomNests, AgreeWithTheInterpreter) { compare(GetParam(), 150); }
TEST_P(RandomNests, TiledOnesToo) { compare(GetParam(), 120, RandomNest::Tiled()); }
TEST_P(RandomNests, HeavyColumnsToo) { compare(GetParam(), 150, RandomNest::Heavy()); }

INSTANTIATE_TEST_SUITE_P(Cpus, RandomNests, ::testing::Values("", "avx2"),
                         [](const auto& cpu) { return *cpu.param ? std::string(cpu.param) : std::string("native"); });

}  // namespace
}  // namespace lazuli
