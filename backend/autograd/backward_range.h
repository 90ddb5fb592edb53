// What the profiler shows of backward where no node of torch's runs: a range by the name of the operation's node, with
// its sequence number, by which the profiler finds the forward operation.
#pragma once
#include <optional>
#include <ATen/record_function.h>

namespace lazuli::backend {

class BackwardRange {
 public:
  // Whether somebody wants to know, asked once for many ranges.
  static bool wanted() { return at::hasCallbacks(); }
  // `name` lives as long as this.
  BackwardRange(bool wanted, const char* name, uint64_t sequence) {
    if (wanted) [[unlikely]]
      begin(name, sequence);
  }

 private:
  [[gnu::noinline]] void begin(const char* name, uint64_t sequence) {
    auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::BACKWARD_FUNCTION);
    if (!callbacks) return;
    range_.emplace(std::move(*callbacks));
    range_->setForwardThreadId(at::RecordFunction::currentThreadId());
    range_->before(name, static_cast<int64_t>(sequence));
  }
  std::optional<at::RecordFunction> range_;
};

}  // namespace lazuli::backend
