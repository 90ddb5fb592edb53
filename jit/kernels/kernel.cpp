// The cache of compiled kernels. Looking up a known nest takes a shared lock; compiling happens outside any lock, and
// when two threads compile the same nest at once the first one in wins.
#include "jit/kernels/kernel.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

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
  std::atomic<int64_t> compiled = 0, loaded = 0, reused = 0, named = 0;
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

// The best code that is on disk, or what is soon made.
void make(const Kernel& kernel) {
  if (const auto kept = disk().load(key_of(kernel.nest, CodeKind::Fast))) {
    count_kernel(KernelSource::Disk);
    return give(kernel, *kept, CodeKind::Fast);
  }
  const CodeKind kind = CodeKind::SoonMade;
  give(kernel, code_for(disk(), key_of(kernel.nest, kind), [&] { return compiled(kernel.nest, kind); }), kind);
}

}  // namespace

std::shared_ptr<const Kernel> kernel_for(const lowering::LoopNest& nest, const std::function<std::string()>& label) {
  Cache& c = cache();
  const uint64_t hash = ir::for_lookup(nest.hash());
  {
    std::shared_lock lock(c.mutex);
    if (auto known = c.find(hash, nest)) {
      count_kernel(KernelSource::Process);
      return known;
    }
  }
  const auto start = std::chrono::steady_clock::now();
  const std::string text = label();
  auto kernel = std::make_shared<Kernel>(nest);
  kernel->name = "k" + std::to_string(c.named++) + (text.empty() ? "" : "_" + text);
  make(*kernel);
  kernel->compile_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();

  std::vector<std::unique_ptr<Entry>> unused;  // whose code goes when nobody waits for the lock
  std::unique_lock lock(c.mutex);
  if (auto known = c.find(hash, nest)) return known;
  unused = c.take_unused();
  c.entries.emplace(hash, std::make_unique<Entry>(kernel, ++c.requests));
  lock.unlock();
  return kernel;
}

std::string fast_code(const lowering::LoopNest& nest) {
  const std::string key = key_of(nest, CodeKind::Fast);
  if (auto kept = disk().load(key)) return *std::move(kept);  // of another process
  std::string code = compiled(nest, CodeKind::Fast);
  disk().store(key, code);
  return code;
}

void use_fast_code(const Kernel& kernel, const std::string& code) { give(kernel, code, CodeKind::Fast); }

void prepare_to_compile() {
  const ir::DType type = ir::DType::F32;
  lowering::LoopNest nest;
  nest.accesses = {{.dtype = type, .stride = lowering::VectorStride::One},
                   {.dtype = type, .stride = lowering::VectorStride::One, .store = true}};
  nest.insts = {{.code = lowering::Code::Load, .dtype = type, .slot = 0},
                {.prim = ir::Prim::exp, .dtype = type, .args = {0}},
                {.code = lowering::Code::Store, .dtype = type, .slot = 1, .args = {1}}};
  const CodeKind kind = CodeKind::SoonMade;
  const std::string key = key_of(nest, kind);
  std::optional<std::string> code = disk().load(key);  // then what the program needs is most likely there, too
  if (!code) disk().store(key, *(code = compiled(nest, kind)));
  Compiler::host().load({kSymbol, {code->begin(), code->end()}});
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
