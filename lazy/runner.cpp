#include "lazy/runner.h"

#include <c10/core/StreamGuard.h>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include "lazy/backing.h"
#include "lazy/source.h"

namespace lazuli::lazy {

// Never destroyed: the process may end with jobs running.
struct Runner::Worker {
  static constexpr size_t kWaiting = 2;
  struct Job {
    std::function<void()> run;
    c10::Stream stream;  // the backing device's, current when it was submitted
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Job> jobs;
  bool busy = false;
  std::exception_ptr failure;

  void loop() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return !jobs.empty(); });
      Job job = std::move(jobs.front());
      jobs.pop_front();
      busy = true;
      lock.unlock();
      std::exception_ptr thrown;
      try {
        c10::StreamGuard guard(job.stream);
        job.run();
      } catch (...) {
        thrown = std::current_exception();
      }
      job.run = nullptr;  // before anybody is told: it holds values
      lock.lock();
      busy = false;
      if (thrown && !failure) failure = thrown;
      changed.notify_all();
    }
  }
};

Runner::Runner() {
  if (!backing().is_gpu()) return;
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
  if (!worker_) return job();
  WithoutPython released;  // a job may need the interpreter
  std::unique_lock lock(worker_->mutex);
  worker_->changed.wait(lock, [&] { return worker_->jobs.size() < Worker::kWaiting; });
  worker_->jobs.push_back({std::move(job), backing().current_stream()});
  worker_->changed.notify_all();
}

void Runner::wait() {
  if (!worker_) return;
  std::exception_ptr failure;
  {
    std::unique_lock lock(worker_->mutex);
    if (!worker_->jobs.empty() || worker_->busy) {
      lock.unlock();
      WithoutPython released;
      lock.lock();
      worker_->changed.wait(lock, [&] { return worker_->jobs.empty() && !worker_->busy; });
    }
    failure = std::exchange(worker_->failure, nullptr);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace lazuli::lazy
