// Torch gives each tensor a version counter, in memory of its own. Those of tensors that die are kept for the next
// ones: each recorded op makes a tensor, and most die within a step.
#pragma once
#include <c10/core/TensorImpl.h>
#include "lazy/support/thread_exit.h"

namespace lazuli::lazy {

class VersionCounters {
 public:
  // One at version 0 that nobody else holds.
  static c10::VariableVersion take() {
    List* list = mine_;
    if (!list || !list->count) return c10::VariableVersion(0);
    c10::VariableVersion v = std::move(list->counters[--list->count]);
    if (v.current_version() != 0) v.set_version(0);
    return v;
  }
  // For who needs it no longer; a view's is still its base's.
  static void give(c10::VariableVersion&& v) {
    if (!v.enabled() || !v.unique()) return;
    if (!mine_ && !begin()) [[unlikely]]
      return;
    if (mine_->count < kMost) mine_->counters[mine_->count++] = std::move(v);
  }

 private:
  static constexpr size_t kMost = 1024;
  struct List {
    size_t count = 0;
    c10::VariableVersion counters[kMost];
  };
  // False for a thread that is ending, whose other variables may still hold tensors.
  [[gnu::noinline]] static bool begin() {
    if (ending_) return false;
    mine_ = new List;
    at_thread_exit([] {
      ending_ = true;
      delete std::exchange(mine_, nullptr);
    });
    return true;
  }
  static inline thread_local List* mine_ [[gnu::tls_model("initial-exec")]] = nullptr;
  static inline thread_local bool ending_ = false;
};

}  // namespace lazuli::lazy
