#include "jit/run/captured_runs.h"
#include <algorithm>

namespace lazuli::jit {

using lowering::Block;
using lowering::BlockView;
using lowering::kNoBlock;
using lowering::PlanStep;
using lowering::StepRange;

namespace {

constexpr size_t kWorthIt = 4;          // steps of a stretch, in the mean
constexpr int64_t kStaged = 8 << 20;    // bytes that a run copies, at most
constexpr uintptr_t kAligned = 256;     // libraries choose by alignment: what is staged is aligned as torch's memory is
constexpr size_t kSeen = 4, kRuns = 4;  // addresses that are remembered, captured runs that are kept
constexpr int kCaptures = 16;           // of a plan: one whose addresses change on and on is not worth more
constexpr int kFailures = 3;            // to find what moves
constexpr int kWaits = 2;
constexpr uint64_t kMostPatience = 4096;  // runs

uint32_t root(const lowering::Plan& plan, uint32_t block) {
  const uint32_t host = plan.blocks[block].host;
  return host == kNoBlock ? block : host;
}

bool contains(const auto& range, const auto& value) {
  return std::find(range.begin(), range.end(), value) != range.end();
}

bool is_output(const lowering::Plan& plan, uint32_t block) { return contains(plan.outputs, block); }

template <class F>
void each_block(const PlanStep& step, F visit) {
  for (const BlockView& v : step.operands)
    if (v.block != kNoBlock) visit(v.block);
  for (const BlockView& v : step.results)
    if (v.block != kNoBlock) visit(v.block);
  if (step.scratch != kNoBlock) visit(step.scratch);
}

}  // namespace

CapturedRuns::CapturedRuns(const lowering::Plan& plan, const std::function<bool(int64_t)>& may_capture) : plan_(plan) {
  find_stretches(may_capture);
}

void CapturedRuns::find_stretches(const std::function<bool(int64_t)>& may_capture) {
  std::vector<bool> moves(plan_.blocks.size(), false);  // results of host's kernels that are not captured
  const auto can_capture = [&](const PlanStep& step) {
    if (step.kind == PlanStep::Kernel) return true;
    bool fixed = true;
    each_block(step, [&](uint32_t b) { fixed = fixed && !moves[b]; });
    if (!fixed) return false;
    if (step.kind == PlanStep::Library) return !step.packed.pack;
    if (step.kind == PlanStep::External && !may_capture(step.external_call)) return false;
    // What captured kernels of the host return lies in the pool's memory, where nobody can keep it.
    return std::ranges::none_of(step.results, [&](const BlockView& v) { return is_output(plan_, v.block); });
  };
  size_t captured = 0;
  for (uint32_t s = 0; s < plan_.steps.size(); s = plan_.launch(s).last) {
    const PlanStep& step = plan_.steps[s];
    const StepRange steps = plan_.launch(s);
    if (!can_capture(step)) {
      if (step.kind != PlanStep::Library)
        for (const BlockView& v : step.results) moves[v.block] = true;
      continue;
    }
    ++captured;
    if (step.kind != PlanStep::Kernel) pin(step);
    if (!stretches_.empty() && stretches_.back().last == s)
      stretches_.back().last = steps.last;
    else
      stretches_.push_back(steps);
  }
  given_up_ = captured < kWorthIt * std::max<size_t>(1, stretches_.size());
}

void CapturedRuns::pin(const PlanStep& step) {
  each_block(step, [&](uint32_t b) {
    const uint32_t r = root(plan_, b);
    const Block::Kind kind = plan_.blocks[r].kind;
    if ((kind == Block::Input || kind == Block::Output) && !contains(pinned_, r)) pinned_.push_back(r);
  });
}

bool CapturedRuns::is_to_be_paced() { return !given_up_ && !device_waits_ && runs_until_paced_-- == 0; }

void CapturedRuns::paced(bool device_waits) {
  waits_ = device_waits ? waits_ + 1 : 0;
  device_waits_ = waits_ == kWaits;
  runs_until_paced_ = device_waits ? 0 : patience_;
  if (!device_waits) patience_ = std::min(2 * patience_, kMostPatience);
}

CapturedRun* CapturedRuns::decide(std::span<const Buffer> memory, CapturePool& pool) {
  Addresses now;
  for (uint32_t b : pinned_) now.push_back(memory[b].data);
  if (CapturedRun* run = find(now, pool)) return run;
  if (captures_ == kCaptures) return nullptr;
  const bool again = contains(seen_, now);
  if (again) return add(std::move(now), pool);
  seen_.push_front(std::move(now));
  if (seen_.size() < kSeen) return nullptr;
  std::string why;
  auto fixed = without_moving(why);
  seen_.clear();
  if (fixed) return add(std::move(*fixed), pool);
  if (++failures_ == kFailures) give_up(std::move(why));
  return nullptr;
}

CapturedRun* CapturedRuns::find(const Addresses& now, CapturePool& pool) {
  const uint64_t number = pool.number();
  std::erase_if(runs_, [&](const CapturedRun& run) { return run.pool == &pool && run.number != number; });
  const auto fits = [&](const CapturedRun& run) {
    return run.pool == &pool &&
           std::ranges::equal(run.pinned, now, [](const void* was, const void* is) { return !was || was == is; });
  };
  const auto found = std::ranges::find_if(runs_, fits);
  return found == runs_.end() ? nullptr : &*found;
}

CapturedRun* CapturedRuns::add(Addresses pinned, CapturePool& pool) {
  ++captures_;
  if (runs_.size() == kRuns) runs_.pop_back();
  CapturedRun& run = runs_.emplace_front();
  for (const StepRange& steps : stretches_) run.stretches.push_back({steps, nullptr});
  for (size_t i = 0; i < pinned.size(); ++i)
    if (!pinned[i]) run.staged.push_back(pinned_[i]);
  run.pinned = std::move(pinned);
  run.pool = &pool;
  run.number = pool.number();
  return &run;
}

std::optional<CapturedRuns::Addresses> CapturedRuns::without_moving(std::string& why) const {
  Addresses fixed = seen_.front();
  int64_t bytes = 0, unaligned = 0;
  for (size_t i = 0; i < fixed.size(); ++i) {
    if (std::ranges::all_of(seen_, [&](const Addresses& a) { return a[i] == fixed[i]; })) continue;
    bytes += plan_.blocks[pinned_[i]].bytes;
    unaligned += !std::ranges::all_of(
        seen_, [&](const Addresses& a) { return reinterpret_cast<uintptr_t>(a[i]) % kAligned == 0; });
    fixed[i] = nullptr;
  }
  if (bytes <= kStaged && !unaligned) return fixed;
  why = std::to_string(bytes) + " bytes of its inputs and results are elsewhere in each run";
  return {};
}

}  // namespace lazuli::jit
