// Which runs of a plan are captured, to be launched again as a few launches.
//
// A captured kernel of ours takes new addresses. What a library or the host launched does not: what it reads and writes
// must be where it was. Temporaries are, in the pool's memory. Inputs and outputs mostly are, in a loop: so a run is
// captured when it comes with addresses that came before. Where they move on all the same (as when each result is
// kept), small ones are copied from and to fixed places.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>
#include "jit/device.h"
#include "jit/run/executable.h"
#include "lowering/plan/plan.h"

namespace lazuli::jit {

struct CapturedRun {
  struct Stretch {
    lowering::StepRange steps;
    std::unique_ptr<CapturedLaunches> launches;
  };
  std::vector<Stretch> stretches;
  std::vector<const void*> pinned;  // addresses of what must be where it was; null: it is staged
  std::vector<uint32_t> staged;     // blocks that are copied from or to fixed places
  std::vector<void*> places;        // by block: its fixed place; null: where each run has it
  const CapturePool* pool = nullptr;
  uint64_t number = 0;  // CapturePool::number()
};

class CapturedRuns {
 public:
  // The plan outlives it. `may_capture`: of external calls.
  CapturedRuns(const lowering::Plan& plan, const std::function<bool(int64_t)>& may_capture);

  // Whether runs are captured, or soon will be: then decide() has to be asked.
  bool is_on(CapturePool& pool) const { return !given_up_ && (device_waits_ || pool.always()); }
  // Whether the next run is to tell paced().
  bool is_to_be_paced();
  // Whether the device had done half of a run's work when all of it had been enqueued: then launching is what takes
  // time.
  void paced(bool device_waits);
  // The captured run to launch for inputs and outputs in this memory, by block. If it has no places yet, this is the
  // run to be captured. Null: neither.
  CapturedRun* decide(std::span<const Buffer> memory, CapturePool& pool);
  // A run cannot be captured after all.
  void give_up(std::string why) { given_up_ = true, why_not_ = std::move(why); }
  // Why no run will be captured any more; none: it was said before, or runs may be.
  std::optional<std::string> take_refusal() { return std::exchange(why_not_, {}); }

 private:
  using Addresses = std::vector<const void*>;
  void find_stretches(const std::function<bool(int64_t)>& may_capture);
  void pin(const lowering::PlanStep& step);
  CapturedRun* find(const Addresses& now, CapturePool& pool);
  CapturedRun* add(Addresses pinned, CapturePool& pool);
  // The latest addresses but for those that move from run to run. None: too many bytes move, or they are not aligned.
  std::optional<Addresses> without_moving(std::string& why) const;

  const lowering::Plan& plan_;
  std::vector<lowering::StepRange> stretches_;
  std::vector<uint32_t> pinned_;  // blocks, not inside of others, that must be where they were
  std::deque<CapturedRun> runs_;  // the latest first
  std::deque<Addresses> seen_;    // of the latest runs that fitted no captured one
  bool given_up_ = false, device_waits_ = false;
  int waits_ = 0;  // how often in a row the device did
  uint64_t runs_until_paced_ = 2, patience_ = 16;
  int captures_ = 0, failures_ = 0;
  std::optional<std::string> why_not_;
};

}  // namespace lazuli::jit
