#include "lowering/plan/memory.h"
#include <span>

namespace lazuli::lowering {
namespace {

// Above this, placing by size takes longer than its smaller arena is worth: 3,000 blocks take some 10 ms.
constexpr size_t kMostBySize = 3'000;
constexpr int64_t kWorthMoving = 4096;  // bytes
// Segments cost allocations in every run: so many of them, in an arena of so many bytes, for a share of the peak.
constexpr int64_t kSegments = 16, kWorthSegments = 1 << 20, kWorthSharing = 100;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Free stretches by offset; the last one grows as needed. Best fit.
class Arena {
 public:
  int64_t take(int64_t bytes) {
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it)
      if (it->bytes >= bytes && (best == free_.end() || it->bytes < best->bytes)) best = it;
    if (best == free_.end()) return grow(bytes);
    const int64_t at = best->at;
    best->at += bytes;
    best->bytes -= bytes;
    if (best->bytes == 0) free_.erase(best);
    return at;
  }
  void give(int64_t at, int64_t bytes) {
    auto next = std::lower_bound(free_.begin(), free_.end(), at, [](const Stretch& s, int64_t x) { return s.at < x; });
    const bool joins_next = next != free_.end() && at + bytes == next->at;
    if (next != free_.begin() && std::prev(next)->end() == at) {
      const auto before = std::prev(next);
      before->bytes += bytes + (joins_next ? next->bytes : 0);
      if (joins_next) free_.erase(next);
    } else if (joins_next) {
      *next = {at, bytes + next->bytes};
    } else {
      free_.insert(next, {at, bytes});
    }
  }
  int64_t size() const { return size_; }

 private:
  struct Stretch {
    int64_t at, bytes;
    int64_t end() const { return at + bytes; }
  };
  int64_t grow(int64_t bytes) {
    int64_t at = size_;
    if (!free_.empty() && free_.back().end() == size_) {  // a free tail that is too short
      at = free_.back().at;
      free_.pop_back();
    }
    size_ = at + bytes;
    return at;
  }
  std::vector<Stretch> free_;
  int64_t size_ = 0;
};

// As memory allocators do it: in the order of the steps, each block into the free stretch that fits it best.
int64_t assign_by_time(std::vector<Block>& blocks, std::span<const uint32_t> placed) {
  std::vector<uint32_t> born(placed.begin(), placed.end()), dead = born;
  std::stable_sort(born.begin(), born.end(), [&](uint32_t a, uint32_t b) {
    return blocks[a].first != blocks[b].first ? blocks[a].first < blocks[b].first : blocks[a].bytes > blocks[b].bytes;
  });
  std::stable_sort(dead.begin(), dead.end(), [&](uint32_t a, uint32_t b) { return blocks[a].last < blocks[b].last; });
  Arena arena;
  auto next = dead.begin();
  for (uint32_t i : born) {
    for (; next != dead.end() && blocks[*next].last < blocks[i].first; ++next)
      arena.give(blocks[*next].offset, aligned(blocks[*next].bytes));
    blocks[i].offset = arena.take(aligned(blocks[i].bytes));
  }
  return arena.size();
}

// Blocks in one stretch of memory, by offset.
class Layout {
 public:
  // The smallest gap of at most `capacity` bytes' reach that takes the block, else what lies behind all that it meets;
  // -1 where that is too far.
  int64_t find(const std::vector<Block>& blocks, const Block& block, int64_t capacity) const {
    const int64_t bytes = aligned(block.bytes);
    int64_t best = -1, best_gap = INT64_MAX, end = 0;
    for (uint32_t j : by_offset_) {
      const Block& other = blocks[j];
      if (other.last < block.first || block.last < other.first) continue;
      if (const int64_t gap = other.offset - end; gap >= bytes && gap < best_gap) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, other.offset + aligned(other.bytes));
    }
    if (best >= 0) return best;
    return end <= capacity - block.bytes ? end : -1;
  }
  void add(const std::vector<Block>& blocks, uint32_t i) {
    by_offset_.insert(std::upper_bound(by_offset_.begin(), by_offset_.end(), i,
                                       [&](uint32_t a, uint32_t b) { return blocks[a].offset < blocks[b].offset; }),
                      i);
  }

 private:
  std::vector<uint32_t> by_offset_;
};

// The largest first, each at the lowest place that no block alive with it has: "greedy by size" of Pisarchyk and Lee,
// Efficient Memory Management for Deep Neural Net Inference (2020). Quadratic in the number of blocks.
int64_t assign_by_size(std::vector<Block>& blocks, std::vector<uint32_t> placed) {
  std::stable_sort(placed.begin(), placed.end(),
                   [&](uint32_t a, uint32_t b) { return blocks[a].bytes > blocks[b].bytes; });
  int64_t size = 0;
  Layout layout;
  for (uint32_t i : placed) {
    Block& block = blocks[i];
    block.offset = layout.find(blocks, block, INT64_MAX);
    size = std::max(size, block.offset + aligned(block.bytes));
    layout.add(blocks, i);
  }
  return size;
}

// Moves temporaries into outputs that are written after their death: the largest and longest-lived ones first, each
// into the output that is written soonest after. Returns those that are left.
std::vector<uint32_t> move_into_outputs(std::vector<Block>& blocks, std::vector<uint32_t> placed) {
  struct Host {
    uint32_t block, written;
    Layout guests;
  };
  std::vector<Host> hosts;
  for (uint32_t i = 0; i < blocks.size(); ++i)
    if (const Block& b = blocks[i];
        b.kind == Block::Output && b.first <= b.last && b.first > 0 && b.bytes >= kWorthMoving)
      hosts.push_back({i, b.first, {}});
  if (hosts.empty() || hosts.size() * placed.size() > kMostBySize * kMostBySize) return placed;
  std::sort(hosts.begin(), hosts.end(), [&](const Host& a, const Host& b) { return a.written < b.written; });
  auto weight = [&](uint32_t i) {
    return static_cast<double>(blocks[i].bytes) * (blocks[i].last - blocks[i].first + 1);
  };
  std::stable_sort(placed.begin(), placed.end(), [&](uint32_t a, uint32_t b) { return weight(a) > weight(b); });
  std::vector<uint32_t> left;
  for (uint32_t i : placed) {
    Block& block = blocks[i];
    auto h = std::upper_bound(hosts.begin(), hosts.end(), block.last,
                              [](uint32_t last, const Host& h) { return last < h.written; });
    int64_t at = -1;
    if (block.bytes >= kWorthMoving)
      for (; h != hosts.end(); ++h)
        if (blocks[h->block].bytes >= block.bytes && (at = h->guests.find(blocks, block, blocks[h->block].bytes)) >= 0)
          break;
    if (at < 0) {
      left.push_back(i);
      continue;
    }
    block.offset = at;
    block.host = h->block;
    h->guests.add(blocks, i);
    blocks[h->block].first = std::min(blocks[h->block].first, block.first);
  }
  std::sort(left.begin(), left.end());
  return left;
}

// What is alive, step by step.
class Lives {
 public:
  explicit Lives(uint32_t steps) : changes_(steps + 1) {}
  void add(const Block& b) { add(b, b.last); }
  void add_to_the_end(const Block& b) { add(b, static_cast<uint32_t>(changes_.size()) - 2); }
  // The first step at which most is alive, and how much.
  std::pair<uint32_t, int64_t> fullest() const {
    std::pair<uint32_t, int64_t> most{0, 0};
    int64_t live = 0;
    for (uint32_t s = 0; s + 1 < changes_.size(); ++s)
      if ((live += changes_[s]) > most.second) most = {s, live};
    return most;
  }

 private:
  void add(const Block& b, uint32_t last) {
    if (b.first > b.last) return;
    changes_[b.first] += aligned(b.bytes);
    changes_[last + 1] -= aligned(b.bytes);
  }
  std::vector<int64_t> changes_;
};

uint32_t steps_of(const std::vector<Block>& blocks) {
  uint32_t steps = 0;
  for (const Block& b : blocks)
    if (b.first <= b.last) steps = std::max(steps, b.last + 1);
  return steps;
}

std::pair<uint32_t, int64_t> fullest(const std::vector<Block>& blocks, std::span<const uint32_t> placed) {
  Lives lives(steps_of(blocks));
  for (uint32_t i : placed) lives.add(blocks[i]);
  return lives.fullest();
}

// The most that is allocated at once in a run, inputs aside.
int64_t peak_of_run(const std::vector<Block>& blocks, int64_t arena) {
  Lives lives(steps_of(blocks));
  for (const Block& b : blocks) {
    if (b.kind == Block::Output) lives.add_to_the_end(b);
    if (b.kind == Block::External || b.kind == Block::Segment) lives.add(b);
  }
  return arena + lives.fullest().second;
}

int64_t place_in_arena(std::vector<Block>& blocks, const std::vector<uint32_t>& placed) {
  const int64_t by_time = assign_by_time(blocks, placed);
  // No layout can go below what is alive at once.
  if (by_time == fullest(blocks, placed).second || placed.size() > kMostBySize) return by_time;
  std::vector<int64_t> offsets;
  for (uint32_t i : placed) offsets.push_back(blocks[i].offset);
  const int64_t by_size = assign_by_size(blocks, placed);
  if (by_size < by_time) return by_size;
  for (size_t i = 0; i < placed.size(); ++i) blocks[placed[i]].offset = offsets[i];
  return by_time;
}

// What is alive at the fullest step and dies after it, in segments by the time of its death; other blocks join one that
// lives as long as they do and has room. Returns those that are left.
std::vector<uint32_t> move_into_segments(std::vector<Block>& blocks, const std::vector<uint32_t>& placed) {
  const auto [step, bytes] = fullest(blocks, placed);
  std::vector<uint32_t> kept, others;
  for (uint32_t i : placed) {
    const Block& b = blocks[i];
    (b.first <= step && step < b.last && b.bytes >= kWorthMoving ? kept : others).push_back(i);
  }
  std::stable_sort(kept.begin(), kept.end(), [&](uint32_t a, uint32_t b) { return blocks[a].last < blocks[b].last; });
  struct Segment {
    uint32_t block;
    Layout guests;
  };
  std::vector<Segment> segments;
  auto enter = [&](Segment& s, uint32_t i, int64_t at) {
    Block &block = blocks[i], &host = blocks[s.block];
    block.offset = at;
    block.host = s.block;
    s.guests.add(blocks, i);
    host.bytes = max(host.bytes, at + aligned(block.bytes));
    host.first = std::min(host.first, block.first);
    host.last = std::max(host.last, block.last);
  };
  for (uint32_t i : kept) {
    if (segments.empty() || blocks[segments.back().block].bytes >= bytes / kSegments) {
      segments.push_back({static_cast<uint32_t>(blocks.size()), {}});
      blocks.emplace_back().kind = Block::Segment;
    }
    enter(segments.back(), i, blocks[segments.back().block].bytes);
  }
  auto weight = [&](uint32_t i) {
    return static_cast<double>(blocks[i].bytes) * (blocks[i].last - blocks[i].first + 1);
  };
  std::stable_sort(others.begin(), others.end(), [&](uint32_t a, uint32_t b) { return weight(a) > weight(b); });
  std::vector<uint32_t> left;
  for (uint32_t i : others) {
    int64_t at = -1;
    for (auto s = segments.begin(); at < 0 && s != segments.end(); ++s) {
      if (blocks[s->block].last < blocks[i].last) continue;
      at = s->guests.find(blocks, blocks[i], blocks[s->block].bytes);
      if (at >= 0) enter(*s, i, at);
    }
    if (at < 0) left.push_back(i);
  }
  std::sort(left.begin(), left.end());
  return left;
}

}  // namespace

int64_t assign_offsets(std::vector<Block>& blocks) {
  std::vector<uint32_t> placed;
  for (uint32_t i = 0; i < blocks.size(); ++i)
    if (const Block& b = blocks[i]; b.kind == Block::Arena && b.first <= b.last && b.bytes != 0) placed.push_back(i);
  placed = move_into_outputs(blocks, std::move(placed));
  const int64_t whole = place_in_arena(blocks, placed);
  if (whole < kWorthSegments || placed.size() > kMostBySize) return whole;
  std::vector<Block> segmented = blocks;
  const int64_t rest = place_in_arena(segmented, move_into_segments(segmented, placed));
  const int64_t without = peak_of_run(blocks, whole), with = peak_of_run(segmented, rest);
  if (with >= without - without / kWorthSharing) return whole;
  blocks = std::move(segmented);
  return rest;
}

}  // namespace lazuli::lowering
