#include "jit/devices/cpu/launch.h"
#include <algorithm>
#include <omp.h>

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

CpuLaunch::CpuLaunch(const ir::Graph& graph, std::span<const PlanStep> steps, lowering::KernelFn function)
    : nest_(steps[0].loops.nest), function_(function), status_(steps.size()) {
  for (size_t s = 0; s < steps.size(); ++s) {
    failures_.push_back(check_failures(graph, steps[s]));
    add(steps[s], &status_[s]);
  }
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
  std::fill(status_.begin(), status_.end(), 0);
  const int64_t wanted = std::min(units_, total_ / kGrain);
  const int threads = static_cast<int>(std::min<int64_t>(wanted, omp_get_max_threads()));
  if (threads <= 1) {
    run_range(0, total_);
  } else {
#pragma omp parallel num_threads(threads)
    {
      const int64_t n = omp_get_num_threads(), i = omp_get_thread_num();
      run_range(total_ / n * i, i + 1 == n ? total_ : total_ / n * (i + 1));
    }
  }
  for (size_t s = 0; s < status_.size(); ++s)
    if (status_[s] != 0) raise_failures(s);
}

std::exception_ptr CpuLaunch::failure_of(size_t s) const {
  const CheckFailure& failure = failures_[s][static_cast<size_t>(status_[s] - 1)];
  return failure.index_error ? std::make_exception_ptr(IndexError(failure.text)) : std::make_exception_ptr(ExecutionError(failure.text));
}

// A status word holds one of the checks that failed: the others of its kernel may have, too.
void CpuLaunch::raise_failures(size_t first) const {
  std::vector<std::pair<uint32_t, std::exception_ptr>> befell;
  for (size_t s = first; s < status_.size(); ++s) {
    if (status_[s] == 0) continue;
    const std::exception_ptr failure = failure_of(s);
    for (const CheckFailure& check : failures_[s]) befell.emplace_back(check.node, failure);
  }
  try {
    std::rethrow_exception(failure_of(first));
  } catch (ExecutionError& e) {
    e.befell = std::move(befell);
    throw;
  }
}

// The units of all pieces that begin at a weight in [begin, end).
void CpuLaunch::run_range(int64_t begin, int64_t end) const {
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), begin,
                                [](int64_t at, const Piece& p) { return at < p.begin; });
  if (piece != pieces_.begin()) --piece;
  for (; piece != pieces_.end() && piece->begin < end; ++piece) {
    auto unit_at = [&](int64_t at) {
      return std::clamp<int64_t>((at - piece->begin + piece->weight - 1) / piece->weight, 0, piece->units);
    };
    const int64_t first = begin <= piece->begin ? 0 : unit_at(begin), last = unit_at(end);
    if (first >= last) continue;
    const int64_t* args = arguments_.data() + piece->arguments;
    if (function_)
      function_(args, first, last);
    else
      lowering::interpret(nest_, args, first, last);
  }
}

}  // namespace lazuli::jit
