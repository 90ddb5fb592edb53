// Fixed-size blocks for the objects that recording one op makes. A block may be freed on another thread than the one
// that took it (backward records on autograd's threads, traces end on others), so each thread's list is short and
// trades whole batches with one depot: what one thread keeps freeing, or leaves when it ends, another finds there.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>
#include "lazy/support/mutex.h"
#include "lazy/support/thread_exit.h"

namespace lazuli::lazy {

template <size_t Size>
class Pool {
 public:
  static void* take() {
    List& list = mine();
    if (!list.head) [[unlikely]]
      fill(list);
    Block* block = list.head;
    list.head = block->next;
    --list.count;
    return block;
  }
  static void give(void* p) {
    List& list = mine();
    auto* block = static_cast<Block*>(p);
    block->next = list.head;
    list.head = block;
    if (++list.count > list.most) [[unlikely]]
      hand_over(list);
  }

 private:
  struct Block {
    Block* next;
  };
  struct Batch {
    Block* head;
    size_t count;
  };
  struct List : Batch {
    size_t most;  // 0: the thread has not used the pool
  };
  struct Depot {
    Mutex mutex{Rank::Leaf};
    std::vector<Batch> batches;
  };
  static constexpr size_t kBatch = 256;
  static List& mine() {
    static thread_local List list [[gnu::tls_model("initial-exec")]] = {{nullptr, 0}, 0};
    return list;
  }
  static Depot& depot() {
    static auto* d = new Depot;  // outlives every thread
    return *d;
  }
  // Seldom: apart, so that what is called for every op stays short.
  [[gnu::noinline]] static void fill(List& list) {
    static_assert(Size % 64 == 0);
    begin(list);
    {
      Depot& d = depot();
      std::lock_guard lock(d.mutex);
      if (!d.batches.empty()) {
        static_cast<Batch&>(list) = d.batches.back();
        d.batches.pop_back();
        return;
      }
    }
    auto* memory = static_cast<char*>(std::aligned_alloc(64, Size * kBatch));
    if (!memory) throw std::bad_alloc();
    list.count = kBatch;
    for (size_t i = kBatch; i-- > 0;) {
      auto* block = reinterpret_cast<Block*>(memory + i * Size);
      block->next = list.head;
      list.head = block;
    }
  }
  [[gnu::noinline]] static void hand_over(List& list) {
    begin(list);
    if (list.count <= list.most) return;
    const Batch batch{list.head, kBatch};
    Block* last = batch.head;
    for (size_t i = 1; i < kBatch; ++i) last = last->next;
    list.head = last->next;
    last->next = nullptr;
    list.count -= kBatch;
    add(batch);
  }
  static void begin(List& list) {
    if (list.most) return;
    list.most = 2 * kBatch;
    at_thread_exit([] {
      List& left = mine();
      if (left.head) add(left);
      left.head = nullptr;
      left.count = 0;
    });
  }
  static void add(const Batch& batch) {
    Depot& d = depot();
    std::lock_guard lock(d.mutex);
    d.batches.push_back(batch);
  }
};

// Gives a class pooled new and delete.
template <class T, size_t Size>
struct Pooled {
  static void* operator new(size_t n) { return n <= Size ? Pool<Size>::take() : ::operator new(n); }
  static void operator delete(void* p, size_t n) { n <= Size ? Pool<Size>::give(p) : ::operator delete(p); }
};

}  // namespace lazuli::lazy
