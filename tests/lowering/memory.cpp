#include "lowering/memory.h"

#include <gtest/gtest.h>
#include <random>

namespace lazuli::lowering {
namespace {

Block block(int64_t bytes, uint32_t first, uint32_t last) {
  Block b;
  b.bytes = bytes;
  b.touch(first);
  b.touch(last);
  return b;
}

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

void expect_apart(const std::vector<Block>& blocks, int64_t arena) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Block& a = blocks[i];
    EXPECT_EQ(a.offset % kAlignment, 0);
    EXPECT_LE(a.offset + a.bytes, arena);
    for (size_t j = 0; j < i; ++j) {
      const Block& b = blocks[j];
      if (a.last < b.first || b.last < a.first) continue;
      EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset) << i << " and " << j << " overlap";
    }
  }
}

int64_t most_alive(const std::vector<Block>& blocks) {
  int64_t most = 0;
  for (const Block& at : blocks) {
    int64_t live = 0;
    for (const Block& b : blocks)
      if (b.first <= at.first && at.first <= b.last) live += aligned(b.bytes);
    most = std::max(most, live);
  }
  return most;
}

TEST(Memory, PlacesOfLivingBlocksAreApart) {
  std::mt19937 random(1);
  auto upto = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  for (int round = 0; round < 50; ++round) {
    std::vector<Block> blocks;
    for (uint32_t i = 0, n = 1 + upto(60); i < n; ++i) {
      uint32_t first = upto(40);
      blocks.push_back(block(1 + upto(5000), first, first + upto(20)));
    }
    const int64_t arena = assign_offsets(blocks);
    expect_apart(blocks, arena);
    EXPECT_GE(arena, most_alive(blocks));
  }
}

// Small blocks that live long come between large ones when places are given in the order of time.
TEST(Memory, LongLivedSmallBlocksDoNotScatterLargeOnes) {
  std::vector<Block> blocks;
  for (uint32_t i = 0; i < 8; ++i) {
    blocks.push_back(block(1024 * (i + 1), 2 * i, 2 * i + 1));
    blocks.push_back(block(64, 2 * i + 1, 40));
  }
  const int64_t arena = assign_offsets(blocks);
  expect_apart(blocks, arena);
  EXPECT_EQ(arena, most_alive(blocks));
}

Block output(int64_t bytes, uint32_t first, uint32_t last) {
  Block b = block(bytes, first, last);
  b.kind = Block::Output;
  return b;
}

// As gradients are written while what forward kept dies.
TEST(Memory, WhatDiesBeforeAnOutputIsWrittenLiesThere) {
  constexpr int64_t kBytes = 1 << 16;
  constexpr uint32_t kLayers = 6;
  std::vector<Block> blocks;
  for (uint32_t i = 0; i < kLayers; ++i) {
    const uint32_t forward = i, backward = 2 * kLayers - i;
    blocks.push_back(block(kBytes, forward, backward));
    blocks.push_back(output(kBytes, backward + 1, 100));
  }
  const std::vector<Block> before = blocks;
  EXPECT_EQ(assign_offsets(blocks), 0);
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Block& guest = blocks[i];
    if (guest.kind != Block::Arena) continue;
    ASSERT_NE(guest.host, kNoBlock);
    const Block& host = before[guest.host];
    EXPECT_EQ(host.kind, Block::Output);
    EXPECT_LT(guest.last, host.first);
    EXPECT_LE(guest.offset + guest.bytes, host.bytes);
    EXPECT_LE(blocks[guest.host].first, guest.first);
    for (size_t j = 0; j < i; ++j)
      if (blocks[j].host == guest.host && blocks[j].kind == Block::Arena && blocks[j].first <= guest.last && guest.first <= blocks[j].last)
        EXPECT_TRUE(guest.offset + guest.bytes <= blocks[j].offset || blocks[j].offset + blocks[j].bytes <= guest.offset);
  }
}

TEST(Memory, WhatLivesWhenAnOutputIsWrittenStaysApart) {
  std::vector<Block> blocks{block(1 << 16, 0, 5), output(1 << 16, 5, 9), output(1 << 10, 7, 9)};
  EXPECT_EQ(assign_offsets(blocks), 1 << 16);
  EXPECT_EQ(blocks[0].host, kNoBlock);
}

TEST(Memory, EmptyAndUntouchedBlocksTakeNoPlace) {
  std::vector<Block> blocks(3);
  blocks[1] = block(0, 2, 3);
  blocks[2] = block(100, 0, 1);
  EXPECT_EQ(assign_offsets(blocks), 128);
}

}  // namespace
}  // namespace lazuli::lowering
