#include "lazy/support/thread_exit.h"
#include <vector>

namespace lazuli::lazy {

void at_thread_exit(void (*f)()) {
  struct Calls {
    std::vector<void (*)()> list;
    ~Calls() {
      for (auto call : list) call();
    }
  };
  static thread_local Calls calls;
  calls.list.push_back(f);
}

}  // namespace lazuli::lazy
