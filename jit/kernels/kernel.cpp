// The cache of compiled kernels. Looking up a known nest takes a shared lock; compiling happens outside any lock, and
// when two threads compile the same nest at once the first one in wins.
#include "jit/kernels/kernel.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/error.h"
#include "ir/hash.h"

namespace lazuli::jit {
namespace {

struct Entry {
  Entry(std::shared_ptr<const Kernel> k, uint64_t now) : kernel(std::move(k)), used(now) {}
  std::shared_ptr<const Kernel> kernel;
  std::atomic<uint64_t> used;  // when, by the count of requests
};

struct Cache {
  std::shared_mutex mutex;
  std::unordered_multimap<uint64_t, std::unique_ptr<Entry>> entries;
  std::atomic<int64_t> compiled = 0, loaded = 0, reused = 0, bytecode = 0, named = 0;
  std::atomic<uint64_t> requests = 0;
  std::atomic<size_t> most = 2048;  // that nobody has
  size_t look_at = 0;               // entries, at which the unused ones are counted next

  std::shared_ptr<const Kernel> find(uint64_t hash, const lowering::LoopNest& nest) {
    auto [first, last] = entries.equal_range(hash);
    for (auto it = first; it != last; ++it)
      if (it->second->kernel->nest == nest) {
        it->second->used = ++requests;
        return it->second->kernel;
      }
    return nullptr;
  }

  // Of too many that nobody has: the least recently used, and an eighth more, so that they need not be counted each
  // time.
  std::vector<std::unique_ptr<Entry>> take_unused() {
    std::vector<decltype(entries)::iterator> unused;
    if (entries.size() < look_at) return {};
    const size_t limit = most;
    for (auto it = entries.begin(); it != entries.end(); ++it)
      if (it->second->kernel.use_count() == 1) unused.push_back(it);
    const size_t kept = limit - limit / 8, count = unused.size() > limit ? unused.size() - kept : 0;
    std::nth_element(unused.begin(), unused.begin() + static_cast<ptrdiff_t>(count), unused.end(),
                     [](auto a, auto b) { return a->second->used < b->second->used; });
    std::vector<std::unique_ptr<Entry>> taken;
    for (size_t i = 0; i < count; ++i) taken.push_back(std::move(entries.extract(unused[i]).mapped()));
    look_at = entries.size() + limit / 8;
    return taken;
  }
};

Cache& cache() {
  static Cache* c = new Cache;  // outlives every thread
  return *c;
}

constexpr const char* kSymbol = "lazuli_kernel";

// All that decides the code.
std::string key_of(const lowering::LoopNest& nest, CodeKind kind) {
  const std::vector<uint64_t> words = nest.words();
  return build_id() + (kind == CodeKind::Fast ? "fast;" : "soon made;") + Compiler::host().fingerprint() +
         std::string(reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint64_t));
}

const DiskCache& disk() {
  static const DiskCache& d = *new DiskCache(DiskCache::of_kind("cpu"));  // outlives every thread
  return d;
}

std::string compiled(const lowering::LoopNest& nest, CodeKind kind) {
  const std::vector<char> bytes = Compiler::host().compile(nest, kSymbol, kind).bytes;
  return {bytes.begin(), bytes.end()};
}

void give(const Kernel& kernel, const std::string& code, CodeKind kind) {
  kernel.function.set(Compiler::host().load({kSymbol, {code.begin(), code.end()}}), kind);
}

std::string compiled_and_kept(const lowering::LoopNest& nest, CodeKind kind) {
  std::string code = compiled(nest, kind);
  disk().store(key_of(nest, kind), code);
  return code;
}

// Of a kernel that has been counted.
std::string code_of(const lowering::LoopNest& nest, CodeKind kind) {
  if (auto kept = disk().load(key_of(nest, kind))) return *std::move(kept);  // of another process
  return compiled_and_kept(nest, kind);
}

std::atomic<BytecodeUse>& wanted_use() {
  static std::atomic<BytecodeUse> use = [] {
    const char* given = std::getenv("LAZULI_BYTECODE");
    const std::string_view wanted = given ? given : "";
    if (wanted == "never") return BytecodeUse::Never;
    if (wanted == "always") return BytecodeUse::Always;
    if (wanted != "auto" && !wanted.empty())
      throw InternalError("unknown use of bytecode '" + std::string(wanted) + "' (auto, never or always)");
    return BytecodeUse::Auto;
  }();
  return use;
}

// Beside what it takes to compile a kernel.
bool takes_long(const bytecode::Program& bytecode, const Extent& extent) {
  if (bytecode_use() == BytecodeUse::Always) return false;
  constexpr double kInstructionNs = 1.25, kLong = 0.01;
  const auto looped = static_cast<double>(bytecode.looped), all = static_cast<double>(bytecode.code.size());
  return (extent.turns * looped + extent.rows * (all - looped)) * kInstructionNs >
         kLong * static_cast<double>(bytecode.compiling_ns());
}

// The best code that is on disk, bytecode, or what is soon made.
void make(const Kernel& kernel, const Extent& extent) {
  for (const CodeKind kind : {CodeKind::Fast, CodeKind::SoonMade})
    if (const auto kept = disk().load(key_of(kernel.nest, kind))) {
      count_kernel(KernelSource::Disk);
      return give(kernel, *kept, kind);
    }
  if (extent.turns < kLarge.turns && bytecode_use() != BytecodeUse::Never)
    if (auto bytecode = Compiler::host().bytecode(kernel.nest); bytecode && !takes_long(*bytecode, extent)) {
      count_kernel(KernelSource::Bytecode);
      return kernel.function.set(std::move(bytecode));
    }
  count_kernel(KernelSource::Compiled);
  give(kernel, compiled_and_kept(kernel.nest, CodeKind::SoonMade), CodeKind::SoonMade);
}

}  // namespace

BytecodeUse bytecode_use() { return wanted_use(); }
void use_bytecode(BytecodeUse use) { wanted_use() = use; }

void expect(const Kernel& kernel, const Extent& extent) {
  if (kernel.function.is_compiled() || !takes_long(*kernel.function.bytecode(), extent)) return;
  give(kernel, code_of(kernel.nest, CodeKind::SoonMade), CodeKind::SoonMade);
}

std::shared_ptr<const Kernel> kernel_for(const lowering::LoopNest& nest, const std::function<std::string()>& label,
                                         const Extent& extent) {
  Cache& c = cache();
  const uint64_t hash = ir::for_lookup(nest.hash());
  {
    std::shared_lock lock(c.mutex);
    if (auto known = c.find(hash, nest)) {
      lock.unlock();
      expect(*known, extent);
      count_kernel(KernelSource::Process);
      return known;
    }
  }
  const auto start = std::chrono::steady_clock::now();
  const std::string text = label();
  auto kernel = std::make_shared<Kernel>(nest);
  kernel->name = "k" + std::to_string(c.named++) + (text.empty() ? "" : "_" + text);
  make(*kernel, extent);
  kernel->compile_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();

  std::vector<std::unique_ptr<Entry>> unused;  // whose code goes when nobody waits for the lock
  std::unique_lock lock(c.mutex);
  if (auto known = c.find(hash, nest)) return known;
  unused = c.take_unused();
  c.entries.emplace(hash, std::make_unique<Entry>(kernel, ++c.requests));
  lock.unlock();
  return kernel;
}

KernelCode::Made faster_code(const Kernel& kernel) {
  const CodeKind kind = kernel.function.is_compiled() ? CodeKind::Fast : CodeKind::SoonMade;
  return {code_of(kernel.nest, kind), kind};
}

void use(const Kernel& kernel, const KernelCode::Made& made) { give(kernel, made.code, made.kind); }

void prepare_to_compile() {
  const ir::DType type = ir::DType::F32;
  lowering::LoopNest nest;
  nest.accesses = {{.dtype = type, .stride = lowering::VectorStride::One},
                   {.dtype = type, .stride = lowering::VectorStride::One, .store = true}};
  nest.insts = {{.code = lowering::Code::Load, .dtype = type, .slot = 0},
                {.prim = ir::Prim::exp, .dtype = type, .args = {0}},
                {.code = lowering::Code::Store, .dtype = type, .slot = 1, .args = {1}}};
  // If it is on disk, what the program needs is most likely there, too.
  const std::string code = code_of(nest, CodeKind::SoonMade);
  Compiler::host().load({kSymbol, {code.begin(), code.end()}});
}

bool has_kernel(const lowering::LoopNest& nest) {
  Cache& c = cache();
  std::shared_lock lock(c.mutex);
  return c.find(ir::for_lookup(nest.hash()), nest) != nullptr;
}

void keep_kernels(size_t most) {
  Cache& c = cache();
  if (c.most.exchange(most) == most) return;
  std::unique_lock lock(c.mutex);
  c.look_at = 0;
}

std::string code_for(const DiskCache& disk, const std::string& key, const std::function<std::string()>& make) {
  if (auto kept = disk.load(key)) {
    count_kernel(KernelSource::Disk);
    return *std::move(kept);
  }
  count_kernel(KernelSource::Compiled);
  std::string made = make();
  disk.store(key, made);
  return made;
}

KernelStats kernel_stats() { return {cache().compiled, cache().loaded, cache().reused, cache().bytecode}; }

void count_kernel(KernelSource source) {
  switch (source) {
    case KernelSource::Compiled:
      ++cache().compiled;
      break;
    case KernelSource::Disk:
      ++cache().loaded;
      break;
    case KernelSource::Process:
      ++cache().reused;
      break;
    case KernelSource::Bytecode:
      ++cache().compiled, ++cache().bytecode;
      break;
  }
}

}  // namespace lazuli::jit
