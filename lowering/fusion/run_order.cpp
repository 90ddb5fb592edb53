#include "lowering/fusion/run_order.h"
#include <functional>
#include <queue>
#include "ir/error.h"

namespace lazuli::lowering {
namespace {

class Scheduler {
 public:
  Scheduler(std::span<const Task> tasks, const std::vector<ir::Size>& bytes, const std::vector<bool>& kept)
      : tasks_(tasks),
        bytes_(bytes),
        kept_(kept),
        waiting_(tasks.size()),
        done_(tasks.size()),
        next_(tasks.size()),
        readers_(bytes.size()) {
    for (uint32_t t = 0; t < tasks.size(); ++t) {
      waiting_[t] = tasks[t].sources.size();
      for (uint32_t s : tasks[t].sources) next_[s].push_back(t);
      for (uint32_t r : tasks[t].reads) readers_[r].push_back(t);
    }
    left_.reserve(bytes.size());
    for (const auto& readers : readers_) left_.push_back(readers.size());
  }

  std::vector<uint32_t> run() {
    for (uint32_t t = 0; t < tasks_.size(); ++t)
      if (!waiting_[t]) make_ready(t);
    while (!ready_.empty() || !freeing_.empty()) {
      Queue& queue = freeing_.empty() ? ready_ : freeing_;
      const uint32_t t = queue.top().second;
      queue.pop();
      if (!done_[t]) finish(t);
    }
    LAZULI_CHECK(order_.size() == tasks_.size(), "fusion groups wait for each other");
    return std::move(order_);
  }

 private:
  using Entry = std::pair<uint32_t, uint32_t>;  // place, task
  using Queue = std::priority_queue<Entry, std::vector<Entry>, std::greater<>>;

  void make_ready(uint32_t t) {
    ready_.push({tasks_[t].place, t});
    look(t);
  }

  // A task may come to free memory when others have run; it then stands in both queues.
  void look(uint32_t t) {
    ir::Size bytes = 0;
    for (uint32_t r : tasks_[t].reads)
      if (left_[r] == 1 && !kept_[r]) bytes -= bytes_[r];
    for (uint32_t w : tasks_[t].writes) bytes += bytes_[w];
    if (bytes < 0) freeing_.push({tasks_[t].place, t});
  }

  void finish(uint32_t t) {
    done_[t] = true;
    order_.push_back(t);
    for (uint32_t r : tasks_[t].reads)
      if (--left_[r] == 1)
        for (uint32_t other : readers_[r])
          if (!done_[other] && !waiting_[other]) look(other);
    for (uint32_t n : next_[t])
      if (--waiting_[n] == 0) make_ready(n);
  }

  std::span<const Task> tasks_;
  const std::vector<ir::Size>& bytes_;
  const std::vector<bool>& kept_;
  std::vector<size_t> waiting_;  // sources that have not run, by task
  std::vector<bool> done_;
  std::vector<std::vector<uint32_t>> next_, readers_;  // by task; by value
  std::vector<size_t> left_;                           // readers that have not run, by value
  Queue ready_, freeing_;
  std::vector<uint32_t> order_;
};

}  // namespace

std::vector<uint32_t> run_order(std::span<const Task> tasks, const std::vector<ir::Size>& bytes,
                                const std::vector<bool>& kept) {
  return Scheduler(tasks, bytes, kept).run();
}

}  // namespace lazuli::lowering
