// Memory for temporaries, kept between runs and shared by all executables: a process runs many plans, but seldom two at
// once. A plan that needs more than there is replaces the largest arena that no plan is using.
#pragma once
#include <cstddef>
#include <memory>

namespace lazuli::jit {

class Arena {
 public:
  explicit Arena(size_t bytes);  // 64-byte aligned; throws std::bad_alloc
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  void* data() const;

 private:
  struct Chunk;
  Chunk* chunk_ = nullptr;
};

// Bytes that the pool holds for later runs.
size_t arena_pool_bytes();
// Gives them back.
void trim_arena_pool();

}  // namespace lazuli::jit
