// Operands of library calls in the order in which the library reads them, kept from run to run: what a parameter of a
// model that is not being trained would otherwise be rewritten to by each run. An operand is packed for good when it is
// wanted a second time with its contents unchanged, so that weights that an optimizer changes at each step never are.
//
// Then there are two copies, and a plan that reads only the packed one can do without the other: the operand is *away*,
// its memory the system's, and its address stays. Whoever is about to read a buffer in any other way calls bring_back()
// first. What was brought back stays: something reads it.
#pragma once
#include <atomic>
#include <functional>
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
  // What is kept of the operand is all that there is of it from now on, if `let_go` gives its memory away. `unpacking`:
  // makes what writes it once more. Nobody else may be reading it.
  using Unpacking = std::function<std::unique_ptr<lowering::LibraryCall>()>;
  void replace(const Operand& operand, const Unpacking& unpacking,
               const std::function<std::shared_ptr<void>()>& let_go);
  // Writes a buffer's contents where they were, if they are away. Throws std::bad_alloc.
  void bring_back(const Buffer& whole);
  // The contents of `whole` change: nothing of it is kept any more.
  void written(const Buffer& whole);
  // Lets go of all that is there twice.
  void clear();
  // That are kept beside the operands themselves.
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
    std::shared_ptr<void> away;  // what Host::let_go gave; null: it is there
    Unpacking unpacking;         // while it is away: of the first of `packed`
    void* data = nullptr;        // and where it was
    bool stays = false;          // it was away once, and somebody read it
  };
  Packed* look_up(const Operand& operand);
  void unpack(Whole& whole);
  void forget_factors(Whole& whole, const Operand& operand);
  void erase(std::unordered_map<const void*, Whole>::iterator it);
  void sweep();

  size_t limit_ = 0, bytes_ = 0;
  std::atomic<size_t> away_ = 0;                   // how many operands
  std::unordered_map<const void*, Whole> wholes_;  // by address of the owner
  mutable std::mutex mutex_;
};

}  // namespace lazuli::jit
