// The cache of compiled kernels. Looking up a known nest takes a shared lock; compiling happens outside any lock, and
// when two threads compile the same nest at once the first one in wins.
#include "jit/kernel.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "ir/hash.h"
#include "jit/compiler.h"

namespace lazuli::jit {
namespace {

struct Entry {
  lowering::LoopNest nest;
  Kernel kernel;
};

struct Cache {
  std::shared_mutex mutex;
  // Entries are never removed, so references to them stay good.
  std::unordered_multimap<uint64_t, std::unique_ptr<Entry>> entries;
  std::atomic<int64_t> compiled = 0, reused = 0;

  const Kernel* find(uint64_t hash, const lowering::LoopNest& nest) const {
    auto [first, last] = entries.equal_range(hash);
    for (auto it = first; it != last; ++it)
      if (it->second->nest == nest) return &it->second->kernel;
    return nullptr;
  }
};

Cache& cache() {
  static Cache* c = new Cache;  // outlives every thread
  return *c;
}

// Object code for the nest; the place where a cache on disk, keyed by nest and Compiler::fingerprint, is asked first.
ObjectCode object_code(const lowering::LoopNest& nest, const std::string& symbol) {
  return Compiler::host().compile(nest, symbol);
}

}  // namespace

const Kernel& kernel_for(const lowering::LoopNest& nest, const std::function<std::string()>& label) {
  Cache& c = cache();
  const uint64_t hash = ir::for_lookup(nest.hash());
  {
    std::shared_lock lock(c.mutex);
    if (const Kernel* k = c.find(hash, nest)) {
      ++c.reused;
      return *k;
    }
  }
  const auto start = std::chrono::steady_clock::now();
  auto entry = std::make_unique<Entry>(Entry{nest, {}});
  const std::string text = label();
  entry->kernel.name = "k" + std::to_string(c.compiled++) + (text.empty() ? "" : "_" + text);
  entry->kernel.function = Compiler::host().load(object_code(nest, entry->kernel.name));
  entry->kernel.compile_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();

  std::unique_lock lock(c.mutex);
  if (const Kernel* k = c.find(hash, nest)) return *k;
  return c.entries.emplace(hash, std::move(entry))->second->kernel;
}

KernelStats kernel_stats() { return {cache().compiled, cache().reused}; }
void count_kernel(bool reused) { ++(reused ? cache().reused : cache().compiled); }

}  // namespace lazuli::jit
