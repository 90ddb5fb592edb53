#include "jit/devices/cpu/launch.h"
#include <algorithm>
#include <cmath>
#include <utility>
#include "jit/failures.h"
#include "jit/kernels/improvement.h"
#include "lowering/threads/crew.h"

namespace lazuli::jit {

using lowering::PlanStep;

namespace {

// Element instructions that are worth another thread; below, waking it costs more than it saves.
constexpr int64_t kGrain = 64 * 1024;

double work_of(const lowering::Loops& loops) {
  double points = 1;
  for (int64_t n : loops.sizes) points *= static_cast<double>(n);
  return points * static_cast<double>(loops.nest.insts.size());
}

}  // namespace

Extent extent_of(const lowering::Loops& loops) {
  constexpr double kLanes = 16;
  const lowering::LoopNest& nest = loops.nest;
  Extent e{1, 1};
  for (uint32_t d = 0; d < nest.rank; ++d) {
    const auto size = static_cast<double>(int64_t{loops.sizes[d]});
    e.turns *= d == nest.vector_dim() ? std::ceil(size / kLanes) : size;
    if (d != nest.vector_dim() && d + nest.reduced < nest.rank) e.rows *= size;
  }
  return e;
}

CpuLaunch::CpuLaunch(const ir::Graph& graph, std::span<const PlanStep> steps, std::shared_ptr<const Kernel> kernel)
    : graph_(graph), steps_(steps), kernel_(std::move(kernel)), status_(steps.size()) {
  for (size_t s = 0; s < steps.size(); ++s) status_[s].resize(steps[s].loops.checks.size());
  resize();
}

void CpuLaunch::resize() {
  arguments_.clear();
  pieces_.clear();
  total_ = units_ = 0;
  for (size_t s = 0; s < steps_.size(); ++s) add(steps_[s], status_[s].data());
  if (!kernel_ || kernel_->function.is_compiled()) return;
  Extent extent;
  for (const PlanStep& step : steps_) extent += extent_of(step.loops);
  expect(*kernel_, extent);
}

void CpuLaunch::add(const PlanStep& step, int64_t* status) {
  const lowering::KernelArgsLayout at(step.loops.nest);
  for (int64_t c = 0; c < step.chunks; ++c) {
    int64_t* args = arguments_.add(step, c);
    if (step.loops.nest.checks) args[at.status] = reinterpret_cast<int64_t>(status);
    const int64_t units = lowering::units(step.loops.nest, args);
    if (units == 0) continue;
    const auto weight = std::max<int64_t>(1, static_cast<int64_t>(work_of(step.loops) / static_cast<double>(units)));
    pieces_.push_back({total_, units, weight, static_cast<size_t>(args - arguments_.data())});
    total_ += units * weight;
    units_ += units;
  }
}

void CpuLaunch::run(std::span<const Buffer> memory, std::span<const int64_t> scalars, void*) {
  arguments_.fill(memory, scalars);
  for (auto& words : status_) std::ranges::fill(words, 0);
  const int64_t wanted = std::min(units_, total_ / kGrain);
  const int threads = static_cast<int>(std::min<int64_t>(wanted, lowering::crew_size()));
  {
    const Watch watch(kernel_);
    lowering::share_out(total_, threads, [&](int64_t begin, int64_t end, int) { run_range(begin, end); });
  }
  if (std::ranges::any_of(status_, [](const auto& words) { return std::ranges::find(words, 1) != words.end(); }))
    raise_failures();
}

void CpuLaunch::raise_failures() const {
  std::vector<std::pair<uint32_t, std::exception_ptr>> befell;
  for (size_t s = 0; s < status_.size(); ++s) {
    if (std::ranges::find(status_[s], 1) == status_[s].end()) continue;
    const std::vector<CheckFailure> failures = check_failures(graph_, steps_[s]);
    for (size_t c = 0; c < failures.size(); ++c) {
      if (status_[s][c] == 0) continue;
      const CheckFailure& f = failures[c];
      befell.emplace_back(f.node, f.index_error ? std::make_exception_ptr(IndexError(f.text))
                                                : std::make_exception_ptr(ExecutionError(f.text)));
    }
  }
  try {
    std::rethrow_exception(befell[0].second);
  } catch (ExecutionError& e) {
    e.befell = std::move(befell);
    throw;
  }
}

// The units of all pieces that begin at a weight in [begin, end).
void CpuLaunch::run_range(int64_t begin, int64_t end) const {
  auto piece =
      std::upper_bound(pieces_.begin(), pieces_.end(), begin, [](int64_t at, const Piece& p) { return at < p.begin; });
  if (piece != pieces_.begin()) --piece;
  for (; piece != pieces_.end() && piece->begin < end; ++piece) {
    auto unit_at = [&](int64_t at) {
      return std::clamp<int64_t>((at - piece->begin + piece->weight - 1) / piece->weight, 0, piece->units);
    };
    const int64_t first = begin <= piece->begin ? 0 : unit_at(begin), last = unit_at(end);
    if (first >= last) continue;
    const int64_t* args = arguments_.data() + piece->arguments;
    if (kernel_)
      kernel_->function(args, first, last);
    else
      lowering::interpret(steps_[0].loops.nest, args, first, last);
  }
}

}  // namespace lazuli::jit
