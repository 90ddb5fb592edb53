#include "backend/device/pinned_memory.h"

#include <map>
#include <ATen/Context.h>
#include "lazy/memory/backing.h"
#include "lazy/support/mutex.h"

namespace lazuli::backend {
namespace {

// Blocks of the CPU's allocator, by where they begin.
class Pinned final : public at::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    auto* block = new Block{c10::GetAllocator(c10::kCPU)->allocate(bytes), bytes};
    void* p = block->memory.get();
    std::lock_guard lock(mutex_);
    blocks_[static_cast<const char*>(p)] = bytes;
    return {p, block, &give_back, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
  bool holds(const void* p) {
    const auto* at = static_cast<const char*>(p);
    std::lock_guard lock(mutex_);
    auto next = blocks_.upper_bound(at);
    return next != blocks_.begin() && at < (--next)->first + next->second;
  }
  static Pinned& get() {
    static auto* p = new Pinned;  // outlives every tensor
    return *p;
  }

 private:
  struct Block {
    c10::DataPtr memory;
    size_t bytes;
  };
  static void give_back(void* context) {
    auto* block = static_cast<Block*>(context);
    {
      std::lock_guard lock(get().mutex_);
      get().blocks_.erase(static_cast<const char*>(block->memory.get()));
    }
    delete block;
  }
  lazy::Mutex mutex_{lazy::Rank::Leaf};
  std::map<const char*, size_t> blocks_;
};

const at::AcceleratorHooksInterface& hooks(const lazy::Backing& device) {
  return at::globalContext().getAcceleratorHooksInterface(device.device().type());
}

}  // namespace

at::Allocator* pinned_allocator() {
  return lazy::backing().shares_host_memory ? &Pinned::get() : hooks(lazy::backing()).getPinnedMemoryAllocator();
}
bool is_pinned(const void* p) {
  const lazy::Backing* device = lazy::Backing::if_chosen();
  return device && !device->shares_host_memory ? hooks(*device).isPinnedPtr(p) : Pinned::get().holds(p);
}

}  // namespace lazuli::backend
