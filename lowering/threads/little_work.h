// Where there is little to do one thread does it: waking another costs more than it saves, and where other processes
// have its core, whoever waits for it waits until the system gives it one.
#pragma once
#include <cstdint>
#include "lowering/threads/crew.h"

namespace lazuli::lowering {

// `products`: multiplications, about.
constexpr bool is_little(int64_t products) { return products < 256 * 1024; }

// While it lives, this thread has one thread for what is run and made, if there is little to do.
class OneThreadForLittle : Threads {
 public:
  explicit OneThreadForLittle(int64_t products) : Threads(is_little(products) ? 1 : omp_get_max_threads()) {}
};

}  // namespace lazuli::lowering
