// Two functions that the libraries need, and that older systems do not have under the names by which a newer compiler
// or LLVM's package calls them. With these the libraries load where glibc is 2.34 and libstdc++ is GCC 11's.
#include <condition_variable>
#include <mutex>
#include <sys/random.h>

#define LAZULI_HIDDEN [[gnu::visibility("hidden")]]

// std::condition_variable::wait: GCC 12 gave it a new version, since it no longer throws.
LAZULI_HIDDEN void wait_for(std::condition_variable* self, std::unique_lock<std::mutex>* lock) noexcept
    asm("_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE");
void wait_for(std::condition_variable* self, std::unique_lock<std::mutex>* lock) noexcept {
  pthread_cond_wait(self->native_handle(), lock->mutex()->native_handle());
}

// glibc has it since 2.36. LLVM names temporary files with it.
extern "C" LAZULI_HIDDEN uint32_t lazuli_random() noexcept asm("arc4random");
uint32_t lazuli_random() noexcept {
  uint32_t number = 0;
  while (getrandom(&number, sizeof(number), 0) != sizeof(number)) {}
  return number;
}
