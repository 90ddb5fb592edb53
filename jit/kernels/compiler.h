// LLVM as this process uses it: the host's target, native code for loop nests, and its loading. Nothing of LLVM
// shows here, so that only jit/kernels/compiler*.cpp and the code generator are compiled against it.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jit/kernels/bytecode.h"
#include "lowering/nest/loop_nest.h"

namespace lazuli::jit {

// Relocatable object code with one kernel, position independent and fit to be kept on disk: it depends on the nest,
// the symbol and Compiler::fingerprint only.
struct ObjectCode {
  std::string symbol;
  std::vector<char> bytes;
};

// What code is good at. Whichever it is, it gives the same bits.
enum class CodeKind : uint8_t {
  SoonMade,  // in about a third of the time
  Fast,
};

// A kernel in memory, where it stays while somebody has a copy of this.
class LoadedKernel {
 public:
  LoadedKernel() = default;
  LoadedKernel(lowering::KernelFn function, std::shared_ptr<const void> code)
      : function_(function), code_(std::move(code)) {}
  void operator()(const int64_t* args, int64_t begin, int64_t end) const { function_(args, begin, end); }
  explicit operator bool() const { return function_ != nullptr; }
  lowering::KernelFn address() const { return function_; }

 private:
  lowering::KernelFn function_ = nullptr;
  std::shared_ptr<const void> code_;
};

// Generates code for one kind of CPU. Thread-safe; compiles run side by side.
class Compiler {
 public:
  // `cpu`: empty for this machine as it is; "avx2" to do without AVX-512. LAZULI_CPU gives the process's default.
  explicit Compiler(const std::string& cpu);
  ~Compiler();
  static Compiler& host();

  ObjectCode compile(const lowering::LoopNest& nest, const std::string& symbol, CodeKind kind = CodeKind::Fast) const;
  // What a loop of ours executes, with the same bits; null where there is none for this nest.
  std::unique_ptr<const bytecode::Program> bytecode(const lowering::LoopNest& nest) const;
  // The compiler must outlive what it loads.
  LoadedKernel load(const ObjectCode& code);

  std::string ir_text(const lowering::LoopNest& nest, const std::string& symbol) const;
  std::string assembly_text(const lowering::LoopNest& nest, const std::string& symbol) const;

  // CPU, features and LLVM version: object code of another fingerprint must not be loaded.
  const std::string& fingerprint() const;
  bool has_avx512() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lazuli::jit
