// What executables need from torch: memory of the backing device, its eager kernels, its current stream.
#pragma once
#include "jit/run/executable.h"

namespace lazuli::lazy {

struct TorchHost : jit::Host {
  jit::Buffer allocate(size_t bytes) override;
  void free_memory() override;
  std::vector<jit::Buffer> external(int64_t call, const std::string& line, std::span<const jit::BufferView> inputs,
                                    std::span<const ir::Type> results) override;
  bool runs_anywhere(int64_t call) const override;
  std::vector<jit::Buffer> eager(const ir::Node& node, std::span<const jit::BufferView> inputs,
                                 std::span<const lowering::Layout> results) override;
  std::shared_ptr<void> profile(const std::function<std::string()>& step) override;
  jit::RunObserver* observer() override;
  void* stream() override;
  std::shared_ptr<void> let_go(const jit::Buffer& buffer) override;
  jit::PackedOperands* packed_operands() override;
  jit::CapturePool* capture_pool() override;
  bool may_capture(int64_t call) const override;

  bool counts_external_calls = true;
  jit::CapturePool* captures = nullptr;  // for runs of this host; null: they are not captured
};

}  // namespace lazuli::lazy
