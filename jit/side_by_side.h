// Work on all cores of the host, of which the device that is compiled for needs none.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace lazuli::jit {

inline thread_local bool is_side_by_side = false;

// Runs `work(i)` for i < n, the first ones first, on threads of its own, or of fewer where the system has no more;
// rethrows the first exception. Within such work it is one thread.
template <class F>
void side_by_side(size_t n, F work) {
  const size_t threads = is_side_by_side ? 1 : std::min<size_t>(n, std::max(1u, std::thread::hardware_concurrency()));
  if (threads <= 1) {
    for (size_t i = 0; i < n; ++i) work(i);
    return;
  }
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  auto loop = [&] {
    is_side_by_side = true;
    for (size_t i; (i = next++) < n;) {
      try {
        work(i);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    }
    is_side_by_side = false;
  };
  std::vector<std::thread> pool;
  pool.reserve(threads);
  try {
    while (pool.size() + 1 < threads) pool.emplace_back(loop);
  } catch (const std::system_error&) {}
  loop();
  for (std::thread& t : pool) t.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace lazuli::jit
