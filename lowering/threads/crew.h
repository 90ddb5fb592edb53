// The threads that compute one thing together.
//
// Ranges are claimed, not assigned: each thread begins with a range of its own and then takes what is left of others',
// so that nobody waits for a thread that the system has not let run yet. On a machine with other work, or on a virtual
// one whose cores come and go, a thread that sleeps may take milliseconds to wake: then the others have done its share.
#pragma once
#include <cstdint>
#include <type_traits>
#include <utility>
#include <immintrin.h>
#include <omp.h>

namespace lazuli::lowering {

// How many threads share work that this thread shares out: as many as OpenMP would use here.
int crew_size();

// While it lives, what this thread runs, and what it makes to be run, gets so many threads.
class Threads {
 public:
  explicit Threads(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~Threads() { omp_set_num_threads(before_); }
  Threads(const Threads&) = delete;

 private:
  const int before_;
};

class OneThread : Threads {
 public:
  OneThread() : Threads(1) {}
};

// How the processor computes with floats on a thread: whether denormals are flushed to zero, and how is rounded.
class FloatMode {
 public:
  static FloatMode here() { return FloatMode(_mm_getcsr() & kControl); }
  friend bool operator==(const FloatMode&, const FloatMode&) = default;

  // While it lives, this thread computes so. What the processor notes of operations stays.
  class While {
   public:
    explicit While(FloatMode mode) : before_(_mm_getcsr() & kControl) { set(mode.bits_); }
    ~While() { set(before_); }
    While(const While&) = delete;

   private:
    static void set(unsigned bits) {
      const unsigned now = _mm_getcsr();
      if ((now & kControl) != bits) _mm_setcsr((now & ~kControl) | bits);
    }
    const unsigned before_;
  };

 private:
  static constexpr unsigned kControl = 0xFFC0;
  explicit FloatMode(unsigned bits) : bits_(bits) {}
  unsigned bits_;
};

// What one of the threads does while there is nothing to share. `step` does a little and says whether there is more; it
// is called on one thread, never two at once. Returns whether there is such a thread: not where crew_size() is 1.
bool begin_background(bool (*step)());
// There is more to do in the background.
void continue_background();
// Waits until `done` says so, and meanwhile takes part in what the background shares out.
void help_background(bool (*done)());

// Whether a thread of the lowest priority has work. It gets no core that anybody keeps awake, so members of the crew
// that have none soon sleep.
void expect_idle_work(bool is_there);

namespace detail {
using Work = void (*)(void* context, int64_t begin, int64_t end, int worker);
void share_out(int64_t n, int threads, bool heavy, Work f, void* context);

template <class F>
void share_out(int64_t n, int threads, bool heavy, F&& f) {
  if (n <= 0) return;
  if (threads <= 1 || n == 1) return f(int64_t{0}, n, 0);
  const Work call = [](void* context, int64_t begin, int64_t end, int worker) noexcept {
    (*static_cast<std::remove_reference_t<F>*>(context))(begin, end, worker);
  };
  share_out(n, threads, heavy, call, &f);
}
}  // namespace detail

// Calls f(begin, end, worker) for ranges that together are [0, n), on this thread and others, and returns when all have
// returned. `worker` is below crew_size(), and no two calls at once have the same. Not `worth` it: on this thread
// alone. f must not throw. `threads`: at most so many.
template <class F>
void share_out(int64_t n, int threads, F&& f) {
  detail::share_out(n, threads, false, std::forward<F>(f));
}
template <class F>
void share_out(int64_t n, bool worth, F&& f) {
  share_out(n, worth ? crew_size() : 1, std::forward<F>(f));
}
// The same for pieces that take long each: they are claimed one by one, the first ones first. Never on OpenMP's own
// threads, since such work asks how many threads there are, and there the answer is one. On the crew's it is one, too,
// unless f says otherwise (Threads).
template <class F>
void share_out_heavy(int64_t n, F&& f) {
  detail::share_out(n, crew_size(), true, std::forward<F>(f));
}

// That OpenMP's own threads work, or have just done so, for a library: they stay awake for a while, and share what
// comes meanwhile, since a core has room for one thread that is awake.
void openmp_has_worked();
// Whether they may still be awake.
bool is_openmp_awake();
// Ends them, those of this thread: the next work for them makes new ones, which takes about 0.2 ms in all.
void end_openmp_threads();

}  // namespace lazuli::lowering
