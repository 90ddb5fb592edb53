// What happens while a report is being made: what each Python line, trace and kernel took, when, and what memory holds.
// It is off unless somebody starts it, and then costs some clock readings for each op and each launch. Sums are kept of
// everything, single runs only of a few, so that its memory does not grow with the number of steps. Where the device
// works while the host goes on, launches are looked at in few runs. A run that nobody looks at may be captured. It
// counts as the last one that was looked at.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <unordered_map>
#include <vector>
#include "jit/run/executable.h"
#include "lazy/report/describe.h"
#include "lazy/report/device_times.h"
#include "lazy/report/novelty.h"
#include "lazy/support/host_time.h"
#include "lazy/support/metrics.h"
#include "lazy/support/mutex.h"
#include "lazy/trace/trace.h"

namespace lazuli::lazy {

// How a trace came to its code.
enum class Found : uint8_t { Known, Compiled };

class Observer final : public jit::RunObserver {
 public:
  static Observer& get();
  static bool is_on() { return on_.load(std::memory_order_relaxed); }
  // Null while it is off.
  static Observer* if_on() { return is_on() ? &get() : nullptr; }

  void start();  // forgets what it knew
  void stop();
  // All that it knows, as dicts and lists; torch_lazuli/report/data.py says what of.
  c10::IValue take();

  // What a trace was made of, when it ends. Under the recorder's lock.
  void ended(uint64_t key, SyncReason reason, uint32_t line, size_t ops, std::span<const uint32_t> lines,
             double begin_us, double end_us);
  void compiled(uint64_t key, const Novelty& novelty, bool is_new, const jit::CompileStats& stats, uint32_t line,
                double begin_us, double end_us);
  void failed() { pieces_.clear(); }  // what was recorded is given up; under the recorder's lock
  void peeked(uint32_t line, double begin_us, double end_us);
  void external(const std::string& op, const std::string& where, double begin_us, double end_us);

  // Around a run, on its thread.
  struct Run {
    Run(Observer* observer, uint64_t key, const Trace& trace);
    ~Run();
    Run(const Run&) = delete;
    // `lines`: of the trace's entries.
    void made(const Trace& trace, std::span<const uint32_t> lines, std::span<const ValueId> live);

   private:
    Observer* const observer_;
    const uint64_t key_;
    const double begin_;
    bool is_nested_ = false;
  };

  // Who is to be told of the launches of the run that this thread is at; null: nobody.
  static jit::RunObserver* of_launches();
  // Before a launch, on its thread.
  void starts();
  void ran(uint64_t executable, const ir::Graph& graph, const lowering::Plan& plan, uint32_t step, Time begin,
           Time end) override;
  void ran_alone(uint64_t executable, const ir::Graph& graph, uint32_t node, Time begin, Time end) override;

 private:
  static constexpr size_t kAccounts = 6;  // recording, autograd, planning, compiling, running, waiting
  enum Account : uint8_t { Recording, Autograd, Planning, Compiling, Running, Waiting };
  enum class Kind : uint8_t { Sync, Compile, Run, Peek, External, Wait };
  struct StepTime {
    int64_t count = 0;
    double total = 0, least = 0, most = 0;  // us
  };
  struct Executable {
    c10::impl::GenericDict description = new_dict();
    std::vector<StepTime> times;
    std::vector<std::vector<int64_t>> lines;  // by step, of each of its nodes
  };
  struct Launch {
    uint64_t executable;
    uint32_t step;
    float begin, us;  // begin: after the run's
  };
  struct SingleRun {
    double begin = 0, us = 0;
    std::vector<Launch> launches;
  };
  struct TraceInfo {
    int64_t ops = 0, runs = 0, measured = 0, ends = 0, compiles = 0, line = 0;
    SyncReason reason = SyncReason::Read;
    double first_us = 0, run_us = 0, compile_us = 0;
    jit::CompileStats stats;
    bool is_new = false;
    Novelty novelty;
    std::vector<SingleRun> kept;        // the first few
    SingleRun slowest, last;            // of those whose launches were looked at
    int64_t alike = 0;                  // runs since the last one of those
    bool is_changed = true;             // what it runs, since then
    std::vector<uint64_t> executables;  // of the last run
  };
  struct Happening {
    Kind kind;
    uint8_t reason;
    int32_t line;
    uint64_t key;
    double begin, us;
  };
  struct Holder {
    std::weak_ptr<void> owner;
    int64_t bytes, line;
  };

  static void listen(const std::array<double, kHostAccounts>& seconds);
  void recorded(const std::array<double, kHostAccounts>& seconds);
  void finish(uint64_t key, double begin, double end);
  void count(const SingleRun& run, int64_t times, bool is_seen);
  void count_alike(TraceInfo& info);  // the runs that nobody looked at
  void keep(TraceInfo& info, SingleRun run);
  void add(int64_t line, Account account, double us) { lines_[line][account] += us; }
  void happened(Happening h);
  int64_t line(uint32_t interned);
  void describe_if_new(uint64_t executable, const ir::Graph& graph, const lowering::Plan* plan);
  void sample(double at);
  void hold(const jit::Buffer& buffer, int64_t line);

  static inline std::atomic<bool> on_ = false;
  mutable Mutex mutex_{Rank::Leaf};
  double start_ = 0, stop_ = 0;
  Texts texts_;
  Nests nests_;
  DeviceTimes device_times_;
  std::unordered_map<int64_t, std::array<double, kAccounts>> lines_;  // us, by line
  std::unordered_map<int64_t, int64_t> ops_;                          // recorded, by line
  std::unordered_map<uint64_t, TraceInfo> traces_;
  std::vector<uint64_t> order_;  // of traces_, as they came
  std::unordered_map<uint64_t, Executable> executables_;
  int64_t left_out_ = 0;  // executables and traces that came when there were too many
  std::vector<Happening> happenings_;
  size_t oldest_ = 0;  // of happenings_, once there are as many as are kept
  int64_t lost_ = 0;
  // What was recorded of the current trace: entry, and how long on which account.
  struct Piece {
    uint32_t entry;
    float recording, autograd;
  };
  std::vector<Piece> pieces_;
  std::unordered_map<uint32_t, int64_t> numbers_;  // of interned lines
  // Memory.
  std::vector<std::pair<double, int64_t>> samples_;
  size_t every_ = 1, skipped_ = 0;
  std::unordered_map<const void*, Holder> holders_;
  size_t look_at_holders_ = 4096;
  int64_t peak_ = 0;
  double peak_at_ = 0;
  uint64_t peak_key_ = 0;
  std::vector<std::pair<int64_t, int64_t>> peak_lines_;  // line, bytes
};

}  // namespace lazuli::lazy
