#include "lazy/run/progress.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <system_error>
#include "lazy/support/config.h"

namespace lazuli::lazy {
namespace {

using std::chrono::steady_clock;
constexpr std::chrono::seconds kLong{2};
std::atomic<bool> has_spoken = false;

}  // namespace

struct Progress::Watch {
  explicit Watch(std::string w) : what(std::move(w)), thread([this] { wait(); }) {}
  ~Watch() {
    {
      std::lock_guard lock(mutex);
      done = true;
    }
    changed.notify_one();
    thread.join();
  }
  void wait() {
    std::unique_lock lock(mutex);
    if (changed.wait_for(lock, kLong, [this] { return done; }) || has_spoken.exchange(true)) return;
    std::fprintf(stderr,
                 "lazuli: compiling %s; steps like it will be fast, and kernels are kept on disk for later processes "
                 "(LAZULI_PROGRESS=0 says nothing)\n",
                 what.c_str());
  }

  const std::string what;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::thread thread;
};

Progress::Progress(std::string what) {
  if (!config().progress || has_spoken.load(std::memory_order_relaxed)) return;
  try {
    watch_ = std::make_unique<Watch>(std::move(what));
  } catch (const std::system_error&) {  // there is no room for a thread: nothing is said then
  }
}
Progress::~Progress() = default;

}  // namespace lazuli::lazy
