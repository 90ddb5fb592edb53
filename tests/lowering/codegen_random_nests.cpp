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
std::vector<int64_t> sizes(Kind... kind) {
  std::vector<int64_t> all{0, 1, 15, 16, 17, 33};
  if constexpr ((std::is_same_v<Kind, RandomNest::Bounded> || ...)) {
    for (int64_t size : {48, 63, 64, 300}) all.push_back(size);
    std::erase_if(all, [&](int64_t size) { return ((size > kind.bound) || ...); });
  } else {
    all.push_back((std::is_same_v<Kind, RandomNest::Tiled> || ...) ? 70 : 1000);
  }
  return all;
}

template <class... Kind>
void compare(const char* cpu, uint64_t seeds, Kind... kind) {
  constexpr bool heavy = (std::is_same_v<Kind, RandomNest::Heavy> || ...);
  jit::Compiler compiler(cpu);
  constexpr bool bounded = (std::is_same_v<Kind, RandomNest::Bounded> || ...);
  int row_by_row = 0, keeping = 0;
  uint64_t interpreted = 0;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    RandomNest random(seed, kind...);
    const lowering::LoopNest& nest = random.nest();
    const std::string symbol = "random" + std::to_string(seed);
    if (heavy) row_by_row += compiler.ir_text(nest, symbol).find("columns") != std::string::npos;
    if (bounded) keeping += compiler.ir_text(nest, symbol).find("alloca [4") != std::string::npos;
    const jit::LoadedKernel kernels[] = {compiler.load(compiler.compile(nest, symbol, jit::CodeKind::SoonMade)),
                                         compiler.load(compiler.compile(nest, symbol, jit::CodeKind::Fast))};
    const std::unique_ptr<const jit::bytecode::Program> bytecode = compiler.bytecode(nest);
    interpreted += bytecode != nullptr;
    for (int64_t size : sizes(kind...)) {
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
  if (bounded && sizes(kind...).back() == 300) {
    EXPECT_GT(keeping, 10);
  }
}

TEST_P(RandomNests, AgreeWithTheInterpreter) { compare(GetParam(), 150); }
TEST_P(RandomNests, TiledOnesToo) { compare(GetParam(), 120, RandomNest::Tiled()); }
TEST_P(RandomNests, ShortRowsToo) {
  compare(GetParam(), 100, RandomNest::Bounded{16});
  compare(GetParam(), 100, RandomNest::Bounded{64});
}
TEST_P(RandomNests, RowsOfWhichValuesAreKeptToo) { compare(GetParam(), 200, RandomNest::Bounded{4096}); }
TEST_P(RandomNests, HeavyColumnsToo) { compare(GetParam(), 150, RandomNest::Heavy()); }

INSTANTIATE_TEST_SUITE_P(Cpus, RandomNests, ::testing::Values("", "avx2"),
                         [](const auto& cpu) { return *cpu.param ? std::string(cpu.param) : std::string("native"); });

}  // namespace
}  // namespace lazuli
