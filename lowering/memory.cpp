#include "lowering/memory.h"
#include <map>

namespace lazuli::lowering {
namespace {

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Free stretches by offset; the last one grows as needed. Best fit.
class Arena {
 public:
  int64_t take(int64_t bytes) {
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it)
      if (it->second >= bytes && (best == free_.end() || it->second < best->second)) best = it;
    if (best == free_.end()) return grow(bytes);
    const int64_t at = best->first, size = best->second;
    free_.erase(best);
    if (size > bytes) free_[at + bytes] = size - bytes;
    return at;
  }
  void give(int64_t at, int64_t bytes) {
    auto next = free_.lower_bound(at);
    if (next != free_.end() && at + bytes == next->first) {
      bytes += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      auto before = std::prev(next);
      if (before->first + before->second == at) {
        before->second += bytes;
        return;
      }
    }
    free_[at] = bytes;
  }
  int64_t size() const { return size_; }

 private:
  int64_t grow(int64_t bytes) {
    int64_t at = size_;
    if (!free_.empty()) {
      auto last = std::prev(free_.end());
      if (last->first + last->second == size_) {  // a free tail that is too short
        at = last->first;
        free_.erase(last);
      }
    }
    size_ = at + bytes;
    return at;
  }
  std::map<int64_t, int64_t> free_;
  int64_t size_ = 0;
};

}  // namespace

int64_t assign_offsets(std::vector<Block>& blocks) {
  uint32_t steps = 0;
  for (const Block& b : blocks)
    if (b.kind == Block::Arena && b.first <= b.last) steps = std::max(steps, b.last + 1);
  std::vector<std::vector<uint32_t>> born(steps), dead(steps);
  for (uint32_t i = 0; i < blocks.size(); ++i) {
    const Block& b = blocks[i];
    if (b.kind != Block::Arena || b.first > b.last || b.bytes == 0) continue;
    born[b.first].push_back(i);
    dead[b.last].push_back(i);
  }
  Arena arena;
  for (uint32_t s = 0; s < steps; ++s) {
    std::stable_sort(born[s].begin(), born[s].end(),
                     [&](uint32_t a, uint32_t b) { return blocks[a].bytes > blocks[b].bytes; });
    for (uint32_t i : born[s]) blocks[i].offset = arena.take(aligned(blocks[i].bytes));
    for (uint32_t i : dead[s]) arena.give(blocks[i].offset, aligned(blocks[i].bytes));
  }
  return arena.size();
}

}  // namespace lazuli::lowering
