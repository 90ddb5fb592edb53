#include "lowering/threads/crew.h"
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <ranges>
#include <system_error>
#include <thread>
#include <vector>
#include <pthread.h>
#include <sched.h>
#include <strings.h>

namespace lazuli::lowering {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// That a thread without work stays awake. On a virtual machine waking it takes longer than many kernels, and between
// two kernels may lie all of a step's recording. It gives way to whoever else has work for its core.
constexpr Clock::duration kPatience = 10ms, kShortPatience = 200us;
constexpr Clock::duration kOpenmpPatience = 10ms;  // that OpenMP's stay awake, about
constexpr int kMost = 64;                          // threads
constexpr int64_t kFew = 8;                        // threads that are kept apart from who shares out
constexpr int64_t kRangesEach = 4;                 // per thread

std::atomic<bool> has_idle_work = false;  // another thread of the process

// What OpenMP's threads are asked to do holds for these, too.
bool may_wait_awake() {
  static const bool may = [] {
    const char* policy = std::getenv("OMP_WAIT_POLICY");
    return !policy || strcasecmp(policy, "passive") != 0;
  }();
  return may;
}

// Work that is shared out: for each thread the ranges that it begins with.
struct Region {
  struct alignas(64) Share {
    std::atomic<int64_t> next = 0;
    int64_t end = 0;
  };
  void (*f)(void*, int64_t, int64_t, int) = nullptr;
  void* context = nullptr;
  int64_t n = 0, ranges = 0;
  int threads = 0;
  FloatMode mode = FloatMode::here();  // of who shares it out
  std::array<Share, kMost> shares;

  void begin(int64_t count, int crew, bool heavy, void (*function)(void*, int64_t, int64_t, int), void* c) {
    f = function, context = c, n = count, threads = crew;
    mode = FloatMode::here();
    ranges = heavy ? n : std::min(n, kRangesEach * threads);
    const int shared = heavy ? 1 : threads;  // all of one share are claimed in their order
    for (int t = 0; t < threads; ++t) {
      shares[t].next.store(ranges * std::min(t, shared) / shared, std::memory_order_relaxed);
      shares[t].end = ranges * std::min(t + 1, shared) / shared;
    }
  }
  void work(int worker) {
    const FloatMode::While same(mode);
    for (int i = 0; i < threads; ++i) {
      Share& share = shares[(worker + i) % threads];
      for (;;) {
        if (share.next.load(std::memory_order_relaxed) >= share.end) break;
        const int64_t range = share.next.fetch_add(1, std::memory_order_relaxed);
        if (range >= share.end) break;
        f(context, at(range), at(range + 1), worker);
      }
    }
  }
  int64_t at(int64_t range) const { return n / ranges * range + std::min(range, n % ranges); }
};

class Crew {
 public:
  // Never destroyed: its threads outlive main. A forked process has none of them, and begins anew.
  static Crew& get() {
    static std::atomic<Crew*>& crew = *new std::atomic<Crew*>(new Crew);
    static const int registered = pthread_atfork(nullptr, nullptr, [] { crew = new Crew; });
    (void)registered;
    return *crew.load(std::memory_order_acquire);
  }

  void share_out(int64_t n, int threads, bool heavy, void (*f)(void*, int64_t, int64_t, int), void* context) {
    if (shares_out_ || (is_member_ && !is_helped())) return f(context, 0, n, 0);
    std::unique_lock lock(sharing_, std::try_to_lock);
    if (!lock) return f(context, 0, n, 0);
    shares_out_ = true;
    enlist(threads - 1);
    is_background_ = is_member_;
    region_.begin(n, threads, heavy, f, context);
    regions_.fetch_add(1, std::memory_order_relaxed);
    if (!is_member_) keep_apart();
    is_open_.store(true, std::memory_order_seq_cst);
    wake();
    region_.work(0);
    is_open_.store(false, std::memory_order_seq_cst);
    // Who is inside has claimed a range, or finds none.
    for (int spins = 0; inside_.load(std::memory_order_seq_cst) != 0; ++spins)
      if (spins < 1000)
        _mm_pause();
      else
        std::this_thread::yield();
    shares_out_ = false;
  }

  bool begin_background(bool (*step)()) {
    std::lock_guard lock(sharing_);
    background_ = step;
    size_ = crew_size();
    enlist(1);
    if (members_.empty()) return false;
    keep_apart();
    return true;
  }
  void continue_background() {
    if (!background_.load()) return;
    has_background_.store(true, std::memory_order_seq_cst);
    wake();
  }
  void help_background(bool (*done)()) {
    is_helped_ = true;
    while (!done())
      if (!is_background_ || !help(1)) _mm_pause();
    is_helped_ = false;
  }
  static bool is_member() { return is_member_; }
  // On the background's thread: how many share its work, while somebody waits for it.
  int size_of_background() const { return is_member_ && is_helped() ? size_ : 1; }

 private:
  // Under sharing_. Where the system gives no more threads, those that are there do the work.
  void enlist(int members) try {
    while (static_cast<int>(members_.size()) < std::min(members, kMost - 1)) {
      const int worker = static_cast<int>(members_.size()) + 1;
      members_.emplace_back([this, worker] { serve(worker); });
      apart_from_ = -1;
    }
  } catch (const std::system_error&) {}

  // The system may well let a thread wake where this one runs, and there it waits until the next tick. Where there are
  // many cores it finds another, so that the first few threads are enough.
  void keep_apart() {
    const int here = sched_getcpu();
    if (here == apart_from_ || here < 0) return;
    apart_from_ = here;
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0 || !CPU_ISSET(here, &cpus) || CPU_COUNT(&cpus) == 1) return;
    CPU_CLR(here, &cpus);
    for (std::thread& member : members_ | std::views::take(kFew))
      pthread_setaffinity_np(member.native_handle(), sizeof cpus, &cpus);
  }

  void wake() {
    if (sleeping_.load(std::memory_order_seq_cst) == 0) return;
    std::lock_guard lock(mutex_);
    changed_.notify_all();
  }

  bool is_helped() const { return is_helped_.load(std::memory_order_relaxed); }

  bool is_there(int worker) const {
    return is_open_.load(std::memory_order_seq_cst) || (worker == 1 && has_background_.load(std::memory_order_seq_cst));
  }

  void serve(int worker) {
    is_member_ = true;
    omp_set_num_threads(1);
    for (;;) {
      if (help(worker)) continue;
      if (worker == 1 && has_background_.exchange(false, std::memory_order_seq_cst)) {
        bool (*const step)() = background_;
        bool more = step();
        while (more && !is_open_.load(std::memory_order_relaxed)) more = step();
        if (more) has_background_ = true;
        continue;
      }
      rest(worker);
    }
  }

  // Whether there was something.
  bool help(int worker) {
    if (!is_open_.load(std::memory_order_relaxed)) return false;
    inside_.fetch_add(1, std::memory_order_seq_cst);
    const bool open = is_open_.load(std::memory_order_seq_cst);
    const uint64_t region = regions_.load(std::memory_order_relaxed);
    if (open && worker < region_.threads) region_.work(worker);
    inside_.fetch_sub(1, std::memory_order_seq_cst);
    // It is closed only when nothing is left, which this thread may find first.
    while (open && is_open_.load(std::memory_order_relaxed) && regions_.load(std::memory_order_relaxed) == region)
      _mm_pause();
    return open;
  }

  void rest(int worker) {
    const auto start = Clock::now();
    const auto stays = [&] {
      if (!may_wait_awake() || is_openmp_awake()) return false;  // OpenMP's threads do not make room for others
      return Clock::now() - start < (has_idle_work.load(std::memory_order_relaxed) ? kShortPatience : kPatience);
    };
    do {
      for (int i = 0; i < 32; ++i) {
        if (is_there(worker)) return;
        _mm_pause();
      }
      std::this_thread::yield();  // to whoever has work for this core
    } while (stays());
    std::unique_lock lock(mutex_);
    sleeping_.fetch_add(1, std::memory_order_seq_cst);
    changed_.wait(lock, [&] { return is_there(worker); });
    sleeping_.fetch_sub(1, std::memory_order_seq_cst);
  }

  static inline thread_local bool is_member_ = false, shares_out_ = false;

  std::mutex sharing_;  // one region at a time
  Region region_;
  std::atomic<bool> is_open_ = false;
  std::atomic<uint64_t> regions_ = 0;  // that there were
  std::atomic<int> inside_ = 0;        // threads that may look at the region
  std::vector<std::thread> members_;
  int apart_from_ = -1;

  std::atomic<bool (*)()> background_ = nullptr;
  int size_ = 1;
  std::atomic<bool> is_helped_ = false;      // by a thread in the background's own place
  std::atomic<bool> is_background_ = false;  // that has shared out the region
  std::atomic<bool> has_background_ = false;

  std::mutex mutex_;  // for sleeping
  std::condition_variable changed_;
  std::atomic<int> sleeping_ = 0;
};

// When OpenMP's threads last worked for a library, and when for us.
std::atomic<Clock::rep> openmp_worked_at = 0, openmp_shared_at = 0;

Clock::rep now() { return Clock::now().time_since_epoch().count(); }
bool is_patient(Clock::rep since) { return Clock::duration(now() - since) < kOpenmpPatience; }

// No library has needed them for long, but they are awake since we did: they would keep a core from the crew.
void let_openmp_sleep() {
  if (is_patient(openmp_shared_at.load(std::memory_order_relaxed))) end_openmp_threads();
}

}  // namespace

int crew_size() {
  if (omp_in_parallel()) return 1;
  return std::min(std::max(omp_get_max_threads(), Crew::get().size_of_background()), kMost);
}

bool begin_background(bool (*step)()) { return crew_size() > 1 && Crew::get().begin_background(step); }
void continue_background() { Crew::get().continue_background(); }
void help_background(bool (*done)()) { Crew::get().help_background(done); }
void expect_idle_work(bool is_there) { has_idle_work.store(is_there, std::memory_order_relaxed); }

bool is_openmp_awake() { return is_patient(openmp_worked_at.load(std::memory_order_relaxed)); }

void end_openmp_threads() {
  if (omp_in_parallel()) return;
  openmp_worked_at.store(0, std::memory_order_relaxed);
  openmp_shared_at.store(0, std::memory_order_relaxed);
  omp_pause_resource(omp_pause_soft, omp_get_initial_device());
}

void openmp_has_worked() {
  if (crew_size() == 1 || Crew::is_member()) return;
  openmp_worked_at.store(now(), std::memory_order_relaxed);
}

namespace detail {

void share_out(int64_t n, int threads, bool heavy, Work f, void* context) {
  threads = static_cast<int>(std::min<int64_t>({threads, crew_size(), n}));
  if (threads <= 1) return f(context, 0, n, 0);
  const bool member = Crew::is_member(), openmp = !member && is_openmp_awake();
  if (heavy || !openmp) {
    if (!member && !openmp) let_openmp_sleep();
    return Crew::get().share_out(n, threads, heavy, f, context);
  }
  Region region;
  region.begin(n, threads, heavy, f, context);
#pragma omp parallel num_threads(threads)
  region.work(omp_get_thread_num());
  openmp_shared_at.store(now(), std::memory_order_relaxed);
}

}  // namespace detail
}  // namespace lazuli::lowering
