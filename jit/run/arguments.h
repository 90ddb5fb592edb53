// Argument arrays of a kernel step, complete but for addresses and run-time numbers.
#pragma once
#include <span>
#include <vector>
#include "jit/run/executable.h"
#include "lowering/plan/plan.h"

namespace lazuli::jit {

class Arguments {
 public:
  // Appends the array (KernelArgsLayout) for chunk `chunk` of the step, and `extra` zeros. Returns it.
  int64_t* add(const lowering::PlanStep& step, int64_t chunk, size_t extra = 0);
  // Appends `count` words. Returns them.
  int64_t* add_words(size_t count, int64_t value);
  void fill(std::span<const Buffer> memory, std::span<const int64_t> scalars);
  const int64_t* data() const { return args_.data(); }
  std::span<const int64_t> words() const { return args_; }
  void clear() { args_.clear(), addresses_.clear(), numbers_.clear(); }

 private:
  // Argument `arg` is the address of a block plus an offset in bytes, or a scalar of the graph.
  struct Address {
    uint32_t arg, block;
    int64_t offset;
  };
  struct Number {
    uint32_t arg, scalar;
  };
  std::vector<int64_t> args_;
  std::vector<Address> addresses_;
  std::vector<Number> numbers_;
};

// Bytes by which access `a` of a chunked step moves on from one chunk to the next.
int64_t chunk_move(const lowering::PlanStep& step, size_t a);

}  // namespace lazuli::jit
