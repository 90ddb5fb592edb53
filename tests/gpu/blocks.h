// The blocks of a plan on the host and on the GPU. On the GPU each lies between guards, which nobody may write.
#pragma once
#include <cstring>
#include "lowering/plan/plan.h"
#include "tests/gpu/gpu.h"

namespace lazuli::testing {

class GpuBlocks {
 public:
  GpuBlocks(Gpu& gpu, const std::vector<std::vector<char>>& host) : gpu_(gpu) {
    for (const auto& block : host) {
      bytes_.push_back(block.size());
      std::vector<char> all(kGuard + padded(block.size()) + kGuard, kFill);
      std::memcpy(all.data() + kGuard, block.data(), block.size());
      memory_.push_back(gpu.allocate(all.size()));
      addresses_.push_back(memory_.back() + kGuard);
      gpu.upload(memory_.back(), all.data(), all.size());
    }
  }
  ~GpuBlocks() {
    for (uint64_t m : memory_) gpu_.free(m);
  }
  GpuBlocks(const GpuBlocks&) = delete;
  GpuBlocks& operator=(const GpuBlocks&) = delete;

  const std::vector<uint64_t>& addresses() const { return addresses_; }
  // Empty if a guard was written.
  std::vector<char> read(size_t block) {
    std::vector<char> all(kGuard + padded(bytes_[block]) + kGuard);
    gpu_.download(all.data(), memory_[block], all.size());
    for (size_t i = 0; i < all.size(); ++i)
      if ((i < kGuard || i >= kGuard + bytes_[block]) && all[i] != kFill) return {};
    return {all.begin() + kGuard, all.begin() + static_cast<ptrdiff_t>(kGuard + bytes_[block])};
  }

 private:
  static constexpr size_t kGuard = 512;
  static constexpr char kFill = 0x5A;
  static size_t padded(size_t bytes) { return (bytes + 63) / 64 * 64; }

  Gpu& gpu_;
  std::vector<size_t> bytes_;
  std::vector<uint64_t> memory_, addresses_;
};

// Numbers that suit what reads them.
void fill(std::vector<char>& block, ir::DType type, uint32_t seed);
// Every block with numbers of the type in which the first access takes it, and a status word after them.
std::vector<std::vector<char>> filled_blocks(const lowering::Plan& plan);

std::vector<uint64_t> addresses_of(std::vector<std::vector<char>>& blocks);

}  // namespace lazuli::testing
