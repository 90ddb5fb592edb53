// Where the host's time goes: while it is kept, each thread's time runs on the account of its innermost timer. What
// runs on none is Python's, torch's dispatcher's and the user's.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>

namespace lazuli::lazy {

enum class HostAccount : uint8_t { None, Recording, Autograd, Ending, Compiling, Running, Waiting };
inline constexpr size_t kHostAccounts = 7;
const char* name(HostAccount a);

class HostTimer {
 public:
  explicit HostTimer(HostAccount account) {
    if (is_kept.load(std::memory_order_relaxed)) [[unlikely]]
      enter(account);
  }
  ~HostTimer() {
    if (entered_) [[unlikely]]
      leave();
  }
  HostTimer(const HostTimer&) = delete;

  // Whether time is kept: torch.lazuli.config.time_host, or somebody listens.
  static inline std::atomic<bool> is_kept = false;
  // Told by each thread when its outermost timer ends: the seconds on each account since it was told before.
  using Listener = void (*)(const std::array<double, kHostAccounts>& seconds);
  static inline std::atomic<Listener> listener = nullptr;

 private:
  void enter(HostAccount account);
  void leave();
  bool entered_ = false;
  HostAccount outer_ = HostAccount::None;
};

// Of all threads, by account, since they were reset.
std::array<double, kHostAccounts> host_seconds();
void reset_host_seconds();

}  // namespace lazuli::lazy
