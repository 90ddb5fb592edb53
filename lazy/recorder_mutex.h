// The lock of what records. Its holder may have to wait for Python's interpreter lock: so nobody who waits for this one
// holds that one.
#pragma once
#include <mutex>
#include "lazy/source.h"

namespace lazuli::lazy {

// Recursive: an external call may itself record (a custom op written in Python).
class RecorderMutex {
 public:
  void lock() {
    if (mutex_.try_lock()) [[likely]]
      return;
    WithoutPython released;
    mutex_.lock();
  }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::recursive_mutex mutex_;
};

}  // namespace lazuli::lazy
