// Compiled kernels and the cache that finds them by their LoopNest.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include "jit/kernels/compiler.h"
#include "jit/kernels/disk_cache.h"
#include "jit/kernels/kernel_code.h"
#include "lowering/nest/loop_nest.h"

namespace lazuli::jit {

struct Kernel {
  explicit Kernel(lowering::LoopNest n) : nest(std::move(n)) {}
  const lowering::LoopNest nest;
  std::string name;  // "k17_add_mul_sum"
  double compile_ms = 0;
  KernelCode function;
};

// Where a kernel comes from that somebody asked for.
enum class KernelSource { Compiled, Disk, Process, Bytecode };
struct KernelStats {
  int64_t compiled = 0, loaded = 0, reused = 0;
  int64_t bytecode = 0;  // of the compiled ones, those that were bytecode first
};

// LAZULI_BYTECODE: whether kernels may be bytecode first, or are bytecode for good, wherever there is some.
enum class BytecodeUse { Auto, Never, Always };
BytecodeUse bytecode_use();
void use_bytecode(BytecodeUse use);  // whatever the setting is, for tests

// What a launch goes over: about how often the innermost loops turn, and how often all else is done.
struct Extent {
  double turns = 0, rows = 0;
  Extent& operator+=(const Extent& other) { return turns += other.turns, rows += other.rows, *this; }
};
// So much that bytecode would take long.
inline constexpr Extent kLarge{1e18, 1e18};

// Returns the kernel for `nest`, on first use from the disk, as bytecode or compiled; what `label` gives becomes part
// of its name. It is compiled if its bytecode would take long for a launch. It stays while somebody has it,
// and some that nobody has stay, too. Thread-safe. Throws InternalError if LLVM refuses.
std::shared_ptr<const Kernel> kernel_for(const lowering::LoopNest& nest, const std::function<std::string()>& label,
                                         const Extent& extent = kLarge);
// Compiles what has been bytecode so far, if that would take long for a launch.
void expect(const Kernel& kernel, const Extent& extent);
// Object code that runs faster than what the kernel has: from the disk or compiled, which is then put there. What is
// bytecode so far is soon made first. Throws as above.
KernelCode::Made faster_code(const Kernel& kernel);
// Puts it in the place of what the kernel has.
void use(const Kernel& kernel, const KernelCode::Made& made);
// Does what the first kernel of a process has to wait for: LLVM is made ready, and its code read from the disk, as much
// of it as compiling a small kernel takes.
void prepare_to_compile();
// Whether this process has it already.
bool has_kernel(const lowering::LoopNest& nest);
// How many of the CPU's kernels stay that nobody has: about so many, 2048 unless set. Each takes about 20 KB.
void keep_kernels(size_t most);
// Of all devices.
KernelStats kernel_stats();
void count_kernel(KernelSource source);
// A kernel's code: from the disk, or what `make` gives, which is then put there. Counts the kernel.
std::string code_for(const DiskCache& disk, const std::string& key, const std::function<std::string()>& make);

}  // namespace lazuli::jit
