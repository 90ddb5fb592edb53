// Kernels of ours where torch has its own at the device's key, as it has for collectives. The dispatcher takes the
// latest, and warns: of two that register the same kernel, it cannot know who is right.
#pragma once
#include <c10/util/Exception.h>

namespace lazuli::backend {

// While it lives, kernels are replaced without a warning.
class ReplacingKernels {
 private:
  struct Silent final : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  };
  Silent silent_;
  c10::WarningUtils::WarningHandlerGuard guard_{&silent_};
};

}  // namespace lazuli::backend
