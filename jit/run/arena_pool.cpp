#include "jit/run/arena_pool.h"
#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

namespace lazuli::jit {

struct Arena::Chunk {
  void* data;
  size_t bytes;
};

namespace {

constexpr size_t kKept = 2;  // chunks: one for training steps, one for what runs between them

struct Pool {
  std::mutex mutex;
  std::vector<std::pair<void*, size_t>> chunks;
};
// Never destroyed: a run may end after static destructors began.
Pool& pool() {
  static Pool* p = new Pool;
  return *p;
}

}  // namespace

Arena::Arena(size_t bytes) {
  if (bytes == 0) return;
  Pool& p = pool();
  {
    std::lock_guard lock(p.mutex);
    auto best = p.chunks.end();
    for (auto it = p.chunks.begin(); it != p.chunks.end(); ++it)
      if (it->second >= bytes && (best == p.chunks.end() || it->second < best->second)) best = it;
    if (best != p.chunks.end()) {
      chunk_ = new Chunk{best->first, best->second};
      p.chunks.erase(best);
      return;
    }
    // All are too small. The largest is what this one replaces.
    const auto largest = std::max_element(p.chunks.begin(), p.chunks.end(),
                                          [](const auto& a, const auto& b) { return a.second < b.second; });
    if (largest != p.chunks.end()) {
      std::free(largest->first);
      p.chunks.erase(largest);
    }
  }
  bytes = (bytes + 63) / 64 * 64;
  void* data = std::aligned_alloc(64, bytes);
  if (!data) throw std::bad_alloc();
  chunk_ = new Chunk{data, bytes};
}

Arena::~Arena() {
  if (!chunk_) return;
  Pool& p = pool();
  std::lock_guard lock(p.mutex);
  p.chunks.emplace_back(chunk_->data, chunk_->bytes);
  delete chunk_;
  if (p.chunks.size() <= kKept) return;
  auto smallest = std::min_element(p.chunks.begin(), p.chunks.end(),
                                   [](const auto& a, const auto& b) { return a.second < b.second; });
  std::free(smallest->first);
  p.chunks.erase(smallest);
}

void* Arena::data() const { return chunk_ ? chunk_->data : nullptr; }

size_t arena_pool_bytes() {
  Pool& p = pool();
  std::lock_guard lock(p.mutex);
  size_t total = 0;
  for (auto& c : p.chunks) total += c.second;
  return total;
}

void trim_arena_pool() {
  Pool& p = pool();
  std::lock_guard lock(p.mutex);
  for (auto& c : p.chunks) std::free(c.first);
  p.chunks.clear();
}

}  // namespace lazuli::jit
