#include "lazy/support/host_time.h"

#include <chrono>
#include <utility>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace lazuli::lazy {
namespace {

using Clock = std::chrono::steady_clock;

// Timers are read several times for each op: the processor's counter costs a fraction of a system clock.
uint64_t ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return static_cast<uint64_t>(Clock::now().time_since_epoch().count());
#endif
}

// How long a tick is, from both clocks since the first call.
double seconds_per_tick() {
  static const uint64_t ticks_then = ticks();
  static const Clock::time_point then = Clock::now();
  std::chrono::duration<double> passed{};
  while (passed.count() < 1e-3) passed = Clock::now() - then;
  return passed.count() / static_cast<double>(ticks() - ticks_then);
}

std::array<std::atomic<uint64_t>, kHostAccounts> totals;

struct Running {
  HostAccount account = HostAccount::None;
  uint64_t since = 0;
  std::array<uint64_t, kHostAccounts> untold{};  // for the listener

  void change_to(HostAccount next) {
    const uint64_t now = ticks();
    if (account != HostAccount::None) {
      totals[static_cast<size_t>(account)].fetch_add(now - since, std::memory_order_relaxed);
      if (HostTimer::listener.load(std::memory_order_relaxed)) untold[static_cast<size_t>(account)] += now - since;
    }
    account = next;
    since = now;
  }
};
thread_local Running running;

}  // namespace

const char* name(HostAccount a) {
  switch (a) {
    case HostAccount::None:
      return "none";
    case HostAccount::Recording:
      return "recording";
    case HostAccount::Autograd:
      return "autograd";
    case HostAccount::Ending:
      return "ending traces";
    case HostAccount::Compiling:
      return "compiling";
    case HostAccount::Running:
      return "running";
    case HostAccount::Waiting:
      return "waiting";
  }
  return "?";
}

void HostTimer::enter(HostAccount account) {
  entered_ = true;
  outer_ = running.account;
  running.change_to(account);
}
void HostTimer::leave() {
  running.change_to(outer_);
  const Listener tell = listener.load(std::memory_order_relaxed);
  if (!tell) running.untold = {};  // of a listener that is gone
  if (!tell || outer_ != HostAccount::None) return;
  static const double tick = seconds_per_tick();
  std::array<double, kHostAccounts> seconds{};
  for (size_t i = 0; i < kHostAccounts; ++i)
    seconds[i] = static_cast<double>(std::exchange(running.untold[i], 0)) * tick;
  tell(seconds);
}

std::array<double, kHostAccounts> host_seconds() {
  std::array<double, kHostAccounts> seconds{};
  const double tick = seconds_per_tick();
  for (size_t i = 0; i < kHostAccounts; ++i)
    seconds[i] = static_cast<double>(totals[i].load(std::memory_order_relaxed)) * tick;
  return seconds;
}
void reset_host_seconds() {
  for (auto& t : totals) t.store(0, std::memory_order_relaxed);
}

}  // namespace lazuli::lazy
