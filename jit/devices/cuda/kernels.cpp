#include "jit/devices/cuda/kernels.h"
#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>
#include "ir/hash.h"
#include "jit/devices/cuda/linker.h"
#include "jit/devices/cuda/ptx_compiler.h"
#include "jit/kernels/kernel.h"
#include "jit/side_by_side.h"

namespace lazuli::jit::cuda {
namespace {

struct Entry {
  lowering::LoopNest nest;
  lowering::GpuVariant variant;
  Kernel kernel;
};

class Cache {
 public:
  static Cache& of(const Context& context) {
    static std::mutex mutex;
    static auto* caches = new std::unordered_map<const Context*, std::unique_ptr<Cache>>;  // outlives every thread
    std::lock_guard lock(mutex);
    auto& cache = (*caches)[&context];
    if (!cache) cache = std::make_unique<Cache>();
    return *cache;
  }
  const Kernel* find(const KernelRequest& r) {
    std::lock_guard lock(mutex_);
    auto [first, last] = entries_.equal_range(key(r));
    for (auto it = first; it != last; ++it)
      if (it->second->variant == r.variant && it->second->nest == *r.nest) return &it->second->kernel;
    return nullptr;
  }
  // When two threads made the same kernel, the first one in wins.
  const Kernel* add(const KernelRequest& r, Kernel kernel) {
    if (const Kernel* there = find(r)) return there;
    std::lock_guard lock(mutex_);
    auto entry = std::make_unique<Entry>(Entry{*r.nest, r.variant, std::move(kernel)});
    return &entries_.emplace(key(r), std::move(entry))->second->kernel;
  }

 private:
  static uint64_t key(const KernelRequest& r) { return ir::for_lookup(ir::mix(r.nest->hash(), r.variant.hash())); }
  std::mutex mutex_;
  std::unordered_multimap<uint64_t, std::unique_ptr<Entry>> entries_;
};

// All that decides what is linked.
std::string key_of(const std::string& ptx, int capability) {
  return build_id() + "sm" + std::to_string(capability) + "-nvjitlink" + linker_version() + "\n" + ptx;
}

Kernel build(const Context& context, const KernelRequest& r, const std::string& name) {
  static const DiskCache& disk = *new DiskCache(DiskCache::of_kind("cubin"));  // outlives every thread
  const int capability = context.attributes().capability;
  const std::string ptx = compile_ptx(*r.nest, r.variant, name, capability);
  const std::string cubin = code_for(disk, key_of(ptx, capability), [&] {
    const std::vector<char> linked = link(ptx, capability).cubin;
    return std::string(linked.begin(), linked.end());
  });
  return {context.load(cubin, name), name};
}

}  // namespace

std::vector<const Kernel*> kernels_for(Context& context, std::span<const KernelRequest> requests) {
  Cache& cache = Cache::of(context);
  std::vector<const Kernel*> out(requests.size());
  std::vector<size_t> missing;
  for (size_t i = 0; i < requests.size(); ++i) {
    out[i] = cache.find(requests[i]);
    if (out[i]) {
      count_kernel(KernelSource::Process);
      continue;
    }
    const bool again = std::any_of(missing.begin(), missing.end(), [&](size_t m) {
      return requests[m].variant == requests[i].variant && *requests[m].nest == *requests[i].nest;
    });
    if (!again) missing.push_back(i);
  }
  side_by_side(missing.size(), [&](size_t m) {
    const KernelRequest& r = requests[missing[m]];
    // The name is part of the PTX, and so of the key on disk: it must not depend on what this process compiled before.
    char id[20];
    snprintf(id, sizeof id, "%08x", static_cast<unsigned>(ir::mix(r.nest->hash(), r.variant.hash())));
    out[missing[m]] = cache.add(r, build(context, r, "g" + std::string(id) + (r.label.empty() ? "" : "_" + r.label)));
  });
  for (size_t i = 0; i < requests.size(); ++i)
    if (!out[i]) out[i] = cache.find(requests[i]);
  return out;
}

}  // namespace lazuli::jit::cuda
