#include "lowering/plan/memory.h"

#include <map>
#include <random>
#include <gtest/gtest.h>

namespace lazuli::lowering {
namespace {

Block block(int64_t bytes, uint32_t first, uint32_t last) {
  Block b;
  b.bytes = bytes;
  b.touch(first);
  b.touch(last);
  return b;
}

Block output(int64_t bytes, uint32_t first, uint32_t last) {
  Block b = block(bytes, first, last);
  b.kind = Block::Output;
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

// Of blocks in the same place, whatever that is.
void expect_apart_in_hosts(const std::vector<Block>& blocks, int64_t arena) {
  std::map<uint32_t, std::vector<Block>> guests;
  for (const Block& b : blocks)
    if (b.kind == Block::Arena) guests[b.host].push_back(b);
  for (const auto& [host, members] : guests) {
    expect_apart(members, host == kNoBlock ? arena : int64_t{blocks[host].bytes});
    if (host == kNoBlock || blocks[host].kind != Block::Segment) continue;
    for (const Block& b : members)
      EXPECT_TRUE(blocks[host].first <= b.first && b.last <= blocks[host].last) << "outlives its segment";
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
      blocks.push_back(block(1 + upto(200'000), first, first + upto(20)));
    }
    for (uint32_t i = 0, n = upto(20); i < n; ++i) blocks.push_back(output(1 + upto(200'000), upto(60), 60));
    expect_apart_in_hosts(blocks, assign_offsets(blocks));
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
    for (size_t j = 0; j < i; ++j) {
      const Block& other = blocks[j];
      if (other.host != guest.host || other.kind != Block::Arena || other.last < guest.first ||
          guest.last < other.first)
        continue;
      EXPECT_TRUE(guest.offset + guest.bytes <= other.offset || other.offset + other.bytes <= guest.offset);
    }
  }
}

TEST(Memory, WhatLivesWhenAnOutputIsWrittenStaysApart) {
  std::vector<Block> blocks{block(1 << 16, 0, 5), output(1 << 16, 5, 9), output(1 << 10, 7, 9)};
  EXPECT_EQ(assign_offsets(blocks), 1 << 16);
  EXPECT_EQ(blocks[0].host, kNoBlock);
}

// Activations that are larger than any gradient, and gradients that are as much together.
TEST(Memory, WhatDiesEarlyIsGivenBackBeforeOutputsCome) {
  constexpr int64_t kBytes = 1 << 20;
  constexpr uint32_t kLayers = 12, kEnd = 2 * kLayers + 4;
  std::vector<Block> blocks;
  for (uint32_t i = 0; i < kLayers; ++i) {
    blocks.push_back(block(kBytes, i, 2 * kLayers - i));
    for (int part = 0; part < 4; ++part) blocks.push_back(output(kBytes / 4, 2 * kLayers - i, kEnd));
  }
  blocks.push_back(block(kBytes / 2, kEnd - 1, kEnd));  // the optimizer's
  const int64_t arena = assign_offsets(blocks);
  expect_apart_in_hosts(blocks, arena);
  int64_t most = 0;
  for (uint32_t step = 0; step <= kEnd; ++step) {
    int64_t now = arena;
    for (const Block& b : blocks)
      if ((b.kind == Block::Segment && b.first <= step && step <= b.last) ||
          (b.kind == Block::Output && b.first <= step))
        now += b.bytes;
    most = std::max(most, now);
  }
  EXPECT_LE(most, kLayers * kBytes * 5 / 4);  // without segments it is twice kLayers * kBytes
}

TEST(Memory, EmptyAndUntouchedBlocksTakeNoPlace) {
  std::vector<Block> blocks(3);
  blocks[1] = block(0, 2, 3);
  blocks[2] = block(100, 0, 1);
  EXPECT_EQ(assign_offsets(blocks), 128);
}

}  // namespace
}  // namespace lazuli::lowering
