// Fixed-size blocks for the objects that recording one op makes. A block may be freed on another thread than the one
// that took it (backward runs on autograd's), so the lists are per thread and blocks simply change hands.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <new>

namespace lazuli::lazy {

template <size_t Size>
class Pool {
 public:
  static void* take() {
    Block*& head = free_list();
    if (!head) [[unlikely]]
      refill(head);
    Block* block = head;
    head = block->next;
    return block;
  }
  static void give(void* p) {
    Block*& head = free_list();
    auto* block = static_cast<Block*>(p);
    block->next = head;
    head = block;
  }

 private:
  struct Block {
    Block* next;
  };
  static constexpr size_t kBatch = 256;
  // Trivial type: no destructor at thread exit, which costs more than the blocks of a dead thread are worth.
  static Block*& free_list() {
    static thread_local Block* head [[gnu::tls_model("initial-exec")]] = nullptr;
    return head;
  }
  static void refill(Block*& head) {
    static_assert(Size % 64 == 0);
    auto* memory = static_cast<char*>(std::aligned_alloc(64, Size * kBatch));
    if (!memory) throw std::bad_alloc();
    for (size_t i = kBatch; i-- > 0;) {
      auto* block = reinterpret_cast<Block*>(memory + i * Size);
      block->next = head;
      head = block;
    }
  }
};

// Gives a class pooled new and delete.
template <class T, size_t Size>
struct Pooled {
  static void* operator new(size_t n) { return n <= Size ? Pool<Size>::take() : ::operator new(n); }
  static void operator delete(void* p, size_t n) { n <= Size ? Pool<Size>::give(p) : ::operator delete(p); }
};

}  // namespace lazuli::lazy
