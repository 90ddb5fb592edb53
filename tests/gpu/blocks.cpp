#include "tests/gpu/blocks.h"
#include <random>
#include "ir/interpret/scalar.h"

namespace lazuli::testing {

void fill(std::vector<char>& block, ir::DType type, uint32_t seed) {
  std::mt19937 rng(seed);
  const int64_t item = ir::item_size(type), n = static_cast<int64_t>(block.size()) / item;
  for (int64_t i = 0; i < n; ++i) {
    const double f = static_cast<double>(rng() % 4096) / 1024 - 2;
    ir::store_number(block.data() + i * item, type, {f, static_cast<int64_t>(rng() % 10)});
  }
}

std::vector<std::vector<char>> filled_blocks(const lowering::Plan& plan) {
  std::vector<std::vector<char>> blocks(plan.blocks.size());
  std::vector<bool> typed(plan.blocks.size());
  for (size_t b = 0; b < blocks.size(); ++b) blocks[b].resize(static_cast<size_t>(plan.blocks[b].bytes));
  for (const lowering::PlanStep& step : plan.steps)
    for (size_t a = 0; a < step.blocks.size(); ++a) {
      const uint32_t b = step.blocks[a];
      if (typed[b]) continue;
      typed[b] = true;
      fill(blocks[b], step.loops.nest.accesses[a].dtype, b + 1);
    }
  size_t checks = 1;
  for (const lowering::PlanStep& step : plan.steps) checks = std::max<size_t>(checks, step.loops.nest.checks);
  blocks.emplace_back(checks * sizeof(int64_t));  // status
  return blocks;
}

std::vector<uint64_t> addresses_of(std::vector<std::vector<char>>& blocks) {
  std::vector<uint64_t> addresses;
  for (auto& b : blocks) addresses.push_back(reinterpret_cast<uint64_t>(b.data()));
  return addresses;
}

}  // namespace lazuli::testing
