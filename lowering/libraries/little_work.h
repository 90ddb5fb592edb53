// Where there is little to do one thread does it: waking another costs more than it saves, and where other processes have its
// core, whoever waits for it waits until the system gives it one.
#pragma once
#include <cstdint>
#include <omp.h>

namespace lazuli::lowering {

// `products`: multiplications, about.
constexpr bool is_little(int64_t products) { return products < 256 * 1024; }

// While it lives, what is made on this thread is made for one thread, if there is little to do.
class OneThreadForLittle {
 public:
  explicit OneThreadForLittle(int64_t products) : before_(is_little(products) ? omp_get_max_threads() : 0) {
    if (before_) omp_set_num_threads(1);
  }
  ~OneThreadForLittle() {
    if (before_) omp_set_num_threads(before_);
  }
  OneThreadForLittle(const OneThreadForLittle&) = delete;

 private:
  const int before_;
};

}  // namespace lazuli::lowering
