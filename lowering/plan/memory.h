// Places for values: one arena for temporaries, reused as they die, beside the buffers of inputs, outputs and external
// results. A block is one such place; values that take over a dying one's place share its block. A temporary that dies
// before an output is written may lie in the output's buffer: what forward keeps for backward lies where gradients go.
// Where outputs come late in a trace, what dies before the end lies in segments, which are given back when it has died.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>
#include "ir/size.h"

namespace lazuli::lowering {

inline constexpr uint32_t kNoBlock = UINT32_MAX;
inline constexpr int64_t kAlignment = 64;

struct Block {
  enum Kind : uint8_t {
    Input,     // graph input `index`
    Output,    // allocated by the host for graph output `index`
    Arena,     // at `offset`, of the arena or of the output or segment `host`
    External,  // handed back by the host when its step runs
    Segment,   // memory for temporaries from step `first` to step `last`
  } kind = Arena;
  uint32_t index = 0;
  ir::Size bytes = 0;
  int64_t offset = 0;
  uint32_t host = kNoBlock;
  uint32_t first = UINT32_MAX, last = 0;  // steps that touch it
  bool donated = false;                   // an input that an output takes over

  void touch(uint32_t step) {
    first = std::min(first, step);
    last = std::max(last, step);
  }
};

// Gives every arena block its place, and appends segments where that lowers the peak of the whole trace's memory;
// blocks alive at the same step do not overlap. A host is alive from its first guest's first step on. Returns the
// arena's size.
int64_t assign_offsets(std::vector<Block>& blocks);

}  // namespace lazuli::lowering
