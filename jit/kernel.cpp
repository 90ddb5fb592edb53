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
#include "jit/disk_cache.h"

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
  std::atomic<int64_t> compiled = 0, loaded = 0, reused = 0, named = 0;

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

constexpr const char* kSymbol = "lazuli_kernel";

// All that decides the code.
std::string key_of(const lowering::LoopNest& nest) {
  const std::vector<uint64_t> words = nest.words();
  return build_id() + Compiler::host().fingerprint() +
         std::string(reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint64_t));
}

// From the disk, or compiled and put there.
lowering::KernelFn make(const lowering::LoopNest& nest) {
  static const DiskCache& disk = *new DiskCache(DiskCache::of_kind("cpu"));  // outlives every thread
  Compiler& compiler = Compiler::host();
  if (!disk.keeps()) {
    count_kernel(KernelSource::Compiled);
    return compiler.load(compiler.compile(nest, kSymbol));
  }
  const std::string key = key_of(nest);
  if (const auto kept = disk.load(key)) {
    count_kernel(KernelSource::Disk);
    return compiler.load({kSymbol, {kept->begin(), kept->end()}});
  }
  count_kernel(KernelSource::Compiled);
  const ObjectCode code = compiler.compile(nest, kSymbol);
  disk.store(key, {code.bytes.data(), code.bytes.size()});
  return compiler.load(code);
}

}  // namespace

const Kernel& kernel_for(const lowering::LoopNest& nest, const std::function<std::string()>& label) {
  Cache& c = cache();
  const uint64_t hash = ir::for_lookup(nest.hash());
  {
    std::shared_lock lock(c.mutex);
    if (const Kernel* k = c.find(hash, nest)) {
      count_kernel(KernelSource::Process);
      return *k;
    }
  }
  const auto start = std::chrono::steady_clock::now();
  auto entry = std::make_unique<Entry>(Entry{nest, {}});
  const std::string text = label();
  entry->kernel.name = "k" + std::to_string(c.named++) + (text.empty() ? "" : "_" + text);
  entry->kernel.function = make(nest);
  entry->kernel.compile_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();

  std::unique_lock lock(c.mutex);
  if (const Kernel* k = c.find(hash, nest)) return *k;
  return c.entries.emplace(hash, std::move(entry))->second->kernel;
}

KernelStats kernel_stats() { return {cache().compiled, cache().loaded, cache().reused}; }

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
  }
}

}  // namespace lazuli::jit
