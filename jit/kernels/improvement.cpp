#include "jit/kernels/improvement.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "lowering/threads/crew.h"

namespace lazuli::jit {
namespace {

using std::chrono::milliseconds;

// What has run so long will most likely run as long again, and again. To make faster code takes longer than this, but
// only time that nobody else wants.
constexpr std::chrono::nanoseconds kWorthwhile = milliseconds(1);
// Where the cores have no time left, whoever runs a kernel makes its code after so long, at a small part of the cost.
constexpr std::chrono::nanoseconds kOverdue = milliseconds(100);
// The same of bytecode: for each part of the time that it takes to compile it.
constexpr int kPartsToWorthwhile = 16, kPartsToOverdue = 3;

// A kernel for which this fails keeps the code that it has, for good.
template <class F>
void or_keep(const Kernel& kernel, F improve) {
  try {
    improve();
  } catch (const std::exception&) {
    kernel.function.keep();
  }
}

class Improver {
 public:
  // Never destroyed: its thread outlives main. A forked process has no such thread, and begins anew.
  static Improver& get() {
    static std::atomic<Improver*>& improver = *new std::atomic<Improver*>(new Improver);
    static const bool registered = (register_process(improver), true);
    (void)registered;
    return *improver.load(std::memory_order_acquire);
  }

  // Who runs kernels may hold locks that a fork waits for, and so waits for none here: the next launch asks again.
  void want(const std::shared_ptr<const Kernel>& kernel) {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || has_ended_ || is_known(kernel)) return;
    if (!has_thread_ && !begin()) return;
    wanted_.push_back(kernel);
    tell_crew();
    changed_.notify_all();
  }

  void prepare() {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || has_ended_ || has_thread_) return;
    begin();
  }

  void make_here(const std::shared_ptr<const Kernel>& kernel) {
    {
      std::unique_lock lock(mutex_, std::try_to_lock);
      // The thread may be at it, but stand still.
      if (!lock || has_ended_ || (kernel == current_ && kernel->function.is_compiled()) || here_) return;
      std::erase(wanted_, kernel);
      tell_crew();
      here_ = kernel.get();
    }
    or_keep(*kernel, [&] { use(*kernel, faster_code(*kernel)); });
    here_ = nullptr;
  }

  void end() {
    if (has_ended_.exchange(true)) return;
    lock();  // the first for good
    wanted_.clear();
    mutex_.unlock();
  }

  void finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return (wanted_.empty() && !current_) || !has_thread_; });
  }

 private:
  static void register_process(std::atomic<Improver*>& improver) {
    static std::atomic<Improver*>& current = improver;
    // LLVM's own data are whole in a child only if nobody is changing them.
    pthread_atfork([] { current.load()->lock(); }, [] { current.load()->unlock(); },
                   [] {
                     current = new Improver;
                     current.load()->tell_crew();
                   });
    end_before_statics();
  }
  // Of LLVM's static objects those are destroyed after this that are there already: some are made by the first
  // compilation, so it is said again after that.
  static void end_before_statics() {
    std::atexit([] { Improver::get().end(); });
  }

  // Who waits for code that is being made lets the thread have the priority of others meanwhile: on a busy machine it
  // would stand still.
  void lock() {
    set_policy(SCHED_OTHER);
    busy_.lock(), mutex_.lock();
  }
  void unlock() {
    mutex_.unlock(), busy_.unlock();
    set_policy(SCHED_IDLE);
  }
  void set_policy(int policy) const {
    const sched_param none{};
    if (const pid_t thread = thread_) sched_setscheduler(thread, policy, &none);
  }
  bool is_known(const std::shared_ptr<const Kernel>& kernel) const {
    return kernel == current_ || kernel.get() == here_ || std::ranges::find(wanted_, kernel) != wanted_.end();
  }

  // Under mutex_, when what follows from it has changed.
  void tell_crew() const { lowering::expect_idle_work(current_ || !wanted_.empty()); }

  // Under mutex_.
  bool begin() {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // the program's handlers run on its own threads
    try {
      std::thread([this] { serve(); }).detach();
      has_thread_ = true;
    } catch (const std::system_error&) {}
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return has_thread_;
  }

  // At the lowest priority a thread may stand still for long, and whoever waits for it with it. So this one shares no
  // lock with others but those of a few instructions: it makes code, which who runs the kernel then loads.
  [[noreturn]] void serve() {
    prepare_here();
    end_before_statics();
    thread_ = gettid();
    set_policy(SCHED_IDLE);
    for (;;) {
      std::unique_lock lock(mutex_);
      current_ = nullptr;
      tell_crew();
      changed_.notify_all();
      changed_.wait(lock, [&] { return !wanted_.empty(); });
      lock.unlock();
      std::lock_guard busy(busy_);
      lock.lock();
      if (wanted_.empty()) continue;
      current_ = std::move(wanted_.front());
      wanted_.pop_front();
      lock.unlock();
      make(*current_);  // which only this thread changes
    }
  }

  void prepare_here() try {
    const std::lock_guard busy(busy_);
    prepare_to_compile();
  } catch (const std::exception&) {}  // who needs a kernel is told

  static void make(const Kernel& kernel) {
    or_keep(kernel, [&] { kernel.function.put_made(faster_code(kernel)); });
  }

  std::mutex busy_;   // while code is being made on the thread; before the other one
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::deque<std::shared_ptr<const Kernel>> wanted_;
  std::shared_ptr<const Kernel> current_;      // what the thread is at
  std::atomic<const Kernel*> here_ = nullptr;  // what another thread is at
  bool has_thread_ = false;
  std::atomic<pid_t> thread_ = 0;  // once it has its priority
  std::atomic<bool> has_ended_ = false;
};

}  // namespace

void ran(const std::shared_ptr<const Kernel>& kernel, std::chrono::nanoseconds time) {
  if (const auto made = kernel->function.take_made()) return or_keep(*kernel, [&] { use(*kernel, *made); });
  const std::chrono::nanoseconds all(kernel->function.ran(time.count()));
  std::chrono::nanoseconds worthwhile = kWorthwhile, overdue = kOverdue;
  if (!kernel->function.is_compiled()) {
    if (bytecode_use() == BytecodeUse::Always) return;
    const std::chrono::nanoseconds compiling(kernel->function.bytecode()->compiling_ns());
    worthwhile = compiling / kPartsToWorthwhile, overdue = compiling / kPartsToOverdue;
  }
  if (all < worthwhile) return;
  if (all < overdue)
    Improver::get().want(kernel);
  else
    Improver::get().make_here(kernel);
}

void prepare_ahead() { Improver::get().prepare(); }

void end_improvements() { Improver::get().end(); }

void finish_improvements() { Improver::get().finish(); }

}  // namespace lazuli::jit
