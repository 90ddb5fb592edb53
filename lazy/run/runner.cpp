#include "lazy/run/runner.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <c10/core/StreamGuard.h>
#include "lazy/memory/backing.h"
#include "lazy/memory/memory.h"
#include "lazy/support/source.h"

namespace lazuli::lazy {

namespace {
thread_local bool in_job = false;
}

// Never destroyed: the process may end with jobs running.
struct Runner::Worker {
  static constexpr size_t kWaiting = 2;
  struct Job {
    std::function<void()> run;
    c10::Stream stream;  // the backing device's, current when it was submitted
    uint64_t number;
  };
  struct Mark {
    uint64_t job;
    void* event;  // behind the job's work
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Job> jobs;
  bool busy = false;
  std::exception_ptr failure;
  uint64_t submitted = 0, completed = 0;
  std::deque<Mark> marks;           // of jobs that the device may not be done with
  std::optional<c10::Stream> last;  // the latest job's

  // Jobs run one after another on the device too, whatever streams they were submitted in: an event that the user
  // records to order streams does not cover a job that is still waiting here. The default stream, whose pool most
  // memory is of, does not get ahead of any.
  void run(const Job& job) const {
    if (last && *last != job.stream) backing().order(*last, job.stream);
    c10::StreamGuard guard(job.stream);
    job.run();
    backing().order(job.stream, backing().default_stream());
  }
  void loop() {
    in_job = true;
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return !jobs.empty(); });
      Job job = std::move(jobs.front());
      jobs.pop_front();
      busy = true;
      lock.unlock();
      std::exception_ptr thrown;
      void* event = nullptr;
      try {
        run(job);
        c10::StreamGuard guard(job.stream);
        event = backing().mark();
      } catch (...) {
        thrown = std::current_exception();
      }
      job.run = nullptr;  // before anybody is told: it holds values
      lock.lock();
      if (event) marks.push_back({job.number, event});
      busy = false;
      last = job.stream;
      if (thrown && !failure) failure = thrown;
      changed.notify_all();
    }
  }
};

Runner::Runner() {
  if (!backing().overlaps_host) return;
  worker_ = new Worker;
  std::thread([w = worker_] { w->loop(); }).detach();
}

namespace {
std::atomic<Runner*> made = nullptr;
}

Runner& Runner::get() {
  static auto* r = new Runner;
  made = r;
  return *r;
}

void Runner::end() {
  try {
    if (Runner* r = made) r->wait();
  } catch (const std::exception&) {  // nobody is there to be told
  }
}

void Runner::submit(std::function<void()> job) {
  age_cached_memory();
  if (!worker_) return job();
  WithoutPython released;  // a job may need the interpreter
  std::unique_lock lock(worker_->mutex);
  worker_->changed.wait(lock, [&] { return worker_->jobs.size() < Worker::kWaiting; });
  worker_->jobs.push_back({std::move(job), backing().current_stream(), ++worker_->submitted});
  worker_->changed.notify_all();
}

uint64_t Runner::next() {
  if (!worker_) return 0;
  std::lock_guard lock(worker_->mutex);
  return worker_->submitted + 1;
}

uint64_t Runner::completed() {
  if (!worker_) return 0;
  std::lock_guard lock(worker_->mutex);
  auto& marks = worker_->marks;
  while (!marks.empty() && backing().passed(marks.front().event)) {
    worker_->completed = marks.front().job;
    marks.pop_front();
  }
  return worker_->completed;
}

void Runner::drain() {
  if (!worker_) return;
  std::unique_lock lock(worker_->mutex);
  if (worker_->jobs.empty() && !worker_->busy) return;
  lock.unlock();
  WithoutPython released;
  lock.lock();
  worker_->changed.wait(lock, [&] { return worker_->jobs.empty() && !worker_->busy; });
}

void Runner::wait() {
  if (!worker_) return;
  drain();
  std::exception_ptr failure;
  std::optional<c10::Stream> last;
  {
    std::lock_guard lock(worker_->mutex);
    failure = std::exchange(worker_->failure, nullptr);
    last = worker_->last;
  }
  if (failure) std::rethrow_exception(failure);
  // Who waits goes on in a stream of his own choice.
  if (last && *last != backing().current_stream()) backing().order(*last, backing().current_stream());
}

bool Runner::is_running() { return in_job; }

}  // namespace lazuli::lazy
