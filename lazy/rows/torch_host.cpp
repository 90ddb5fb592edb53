#include "lazy/rows/torch_host.h"

#include <cstdlib>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>
#include "lazy/external/external.h"
#include "lazy/external/external_calls.h"
#include "lazy/memory/backing.h"
#include "lazy/memory/memory.h"
#include "lazy/report/observer.h"
#include "lazy/rows/eager_rows.h"
#include "lazy/support/config.h"

namespace lazuli::lazy {
namespace {

// The executor adds op and line.
template <class F>
auto tell_of_memory(F call) {
  try {
    return call();
  } catch (const c10::OutOfMemoryError& e) {
    throw jit::OutOfMemory(e.what_without_backtrace());
  }
}

}  // namespace

jit::Buffer TorchHost::allocate(size_t bytes) {
  return tell_of_memory([&] { return allocate_buffer(bytes); });
}

void TorchHost::free_memory() { release_cached_memory(); }

std::vector<jit::Buffer> TorchHost::external(int64_t call, const std::string& line,
                                             std::span<const jit::BufferView> inputs,
                                             std::span<const ir::Type> results) {
  return tell_of_memory([&] { return run_external(call, line, inputs, results, counts_external_calls); });
}

bool TorchHost::runs_anywhere(int64_t call) const { return external_call_at(call)->alike; }

std::vector<jit::Buffer> TorchHost::eager(const ir::Node& node, std::span<const jit::BufferView> inputs,
                                          std::span<const lowering::Layout> results) {
  return tell_of_memory([&] { return run_eager_row(node, inputs, results); });
}

std::shared_ptr<void> TorchHost::profile(const std::function<std::string()>& step) {
  if (Observer* observer = Observer::if_on()) observer->starts();
  auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION);
  if (!callbacks) return nullptr;
  auto range = std::make_shared<at::RecordFunction>(std::move(*callbacks));
  range->before("lazuli: " + step());
  return range;
}

jit::CapturePool* TorchHost::capture_pool() {
  if (!captures || config().cuda_graphs == "0" || is_reference_mode()) return nullptr;
  static const char* const blocking = std::getenv("CUDA_LAUNCH_BLOCKING");  // each launch is waited for
  if (blocking && *blocking == '1') return nullptr;
  if (at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION)) return nullptr;  // a profiler wants to see each step
  return captures;
}

bool TorchHost::may_capture(int64_t call) const { return external_call_at(call)->can_be_captured; }

jit::RunObserver* TorchHost::observer() { return Observer::of_launches(); }

void* TorchHost::stream() { return backing().stream(); }

// Nobody takes a buffer meanwhile: on the CPU, a run has the recorder's lock, and nobody works ahead on the trace any
// more (sync.cpp). Who took one before has it, which the executor sees.
std::shared_ptr<void> TorchHost::let_go(const jit::Buffer& buffer) { return lazy::let_go(buffer); }
jit::PackedOperands* TorchHost::packed_operands() { return lazy::packed_operands(); }

}  // namespace lazuli::lazy
