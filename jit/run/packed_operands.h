// Operands of library calls in the order in which the library reads them, kept from run to run: what a parameter of a
// model that is not being trained would otherwise be rewritten to by each run. An operand is packed for good when it is
// wanted a second time with its contents unchanged, so that weights that an optimizer changes at each step never are.
#pragma once
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>
#include "jit/run/executable.h"

namespace lazuli::jit {

// All calls may come from any thread.
class PackedOperands {
 public:
  // At most so many bytes are kept from now on; what is already stays.
  void set_limit(size_t bytes);
  // What is at `data` in `whole`, to be packed in this order and multiplied by a few numbers, which are compared one by
  // one; none: it is not multiplied.
  struct Operand {
    const Buffer& whole;
    const void* data;
    const std::string& order;
    std::span<const char> factor;
  };
  // What is kept of it; no data: nothing.
  Buffer find(const Operand& operand);
  // Says that it is about to be packed into `bytes` bytes; true: it should be kept then.
  bool wants(const Operand& operand, size_t bytes);
  void keep(const Operand& operand, Buffer packed);
  // The contents of `whole` change: nothing of it is kept any more.
  void written(const Buffer& whole);
  void clear();
  size_t bytes() const;

 private:
  struct Packed {
    const void* data;
    std::string order;
    Buffer packed;  // none while the operand was wanted once
    std::vector<char> factor;
  };
  struct Whole {
    std::weak_ptr<void> owner;  // expired: another buffer may lie at the same address by now
    std::vector<Packed> packed;
  };
  Packed* look_up(const Operand& operand);
  void forget_factors(Whole& whole, const Operand& operand);
  void erase(std::unordered_map<const void*, Whole>::iterator it);
  void sweep();

  size_t limit_ = 0, bytes_ = 0;
  std::unordered_map<const void*, Whole> wholes_;  // by address of the owner
  mutable std::mutex mutex_;
};

}  // namespace lazuli::jit
