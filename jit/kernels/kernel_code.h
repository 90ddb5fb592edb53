// A kernel's code. At first it is bytecode, or what was soon made. Faster code may take its place while the kernel
// runs.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include "jit/kernels/compiler.h"

namespace lazuli::jit {

class KernelCode {
 public:
  KernelCode() = default;
  KernelCode(const KernelCode&) = delete;
  KernelCode& operator=(const KernelCode&) = delete;
  ~KernelCode() { delete made_.load(); }
  void operator()(const int64_t* args, int64_t begin, int64_t end) const {
    if (const lowering::KernelFn function = function_.load(std::memory_order_acquire))
      return function(args, begin, end);
    bytecode_->run(args, begin, end);
  }
  // Before anybody runs it.
  void set(std::unique_ptr<const bytecode::Program> bytecode) const { bytecode_ = std::move(bytecode); }
  bool is_compiled() const { return function_.load(std::memory_order_acquire) != nullptr; }
  const bytecode::Program* bytecode() const { return bytecode_.get(); }
  // Whether there is no faster code to come.
  bool is_fast() const { return is_fast_.load(std::memory_order_acquire); }
  // Others may run the code meanwhile. What it had stays in memory, since somebody may be in it. Of two threads that
  // put code there at once, one does.
  void set(LoadedKernel code, CodeKind kind) const {
    if (is_being_set_.exchange(true, std::memory_order_acquire)) return;
    if (LoadedKernel& place = codes_[static_cast<size_t>(kind)]; !place && !is_fast()) {
      place = std::move(code);
      function_.store(place.address(), std::memory_order_release);
      if (kind == CodeKind::Fast) is_fast_.store(true, std::memory_order_release);
    }
    is_being_set_.store(false, std::memory_order_release);
  }
  // Faster code cannot be made.
  void keep() const { is_fast_.store(true, std::memory_order_release); }
  // Object code that another thread has made: faster, and not loaded yet. Whoever takes it has it alone.
  struct Made {
    std::string code;
    CodeKind kind;
  };
  void put_made(Made made) const { delete made_.exchange(new Made(std::move(made)), std::memory_order_acq_rel); }
  std::unique_ptr<const Made> take_made() const {
    if (!made_.load(std::memory_order_relaxed)) return nullptr;
    return std::unique_ptr<const Made>(made_.exchange(nullptr, std::memory_order_acq_rel));
  }
  // Nanoseconds that code which is not fast has run, with those that are added. It is a hint: two threads at once may
  // lose some.
  int64_t ran(int64_t ns) const {
    const int64_t all = ran_ns_.load(std::memory_order_relaxed) + ns;
    ran_ns_.store(all, std::memory_order_relaxed);
    return all;
  }

 private:
  // Nothing that the kernel computes depends on these.
  mutable std::unique_ptr<const bytecode::Program> bytecode_;
  mutable std::array<LoadedKernel, 2> codes_;  // by kind
  mutable std::atomic<lowering::KernelFn> function_ = nullptr;
  mutable std::atomic<bool> is_fast_ = false;
  mutable std::atomic<bool> is_being_set_ = false;
  mutable std::atomic<const Made*> made_ = nullptr;
  mutable std::atomic<int64_t> ran_ns_ = 0;
};

}  // namespace lazuli::jit
