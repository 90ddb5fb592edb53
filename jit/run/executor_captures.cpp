// Captured runs: how a plan's launches are made once, and again.
#include <algorithm>
#include "jit/run/executor.h"

namespace lazuli::jit {

using lowering::Block;
using lowering::BlockView;
using lowering::kNoBlock;
using lowering::PlanStep;
using lowering::StepRange;

CapturePool* Executor::pool_for(const Run& run) {
  if (run.observer || !device_.can_capture()) return nullptr;  // who observes wants to see each step
  CapturePool* pool = run.host.capture_pool();
  if (!pool) return nullptr;
  if (!captured_runs_) captured_runs_.emplace(plan_, [&](int64_t call) { return run.host.may_capture(call); });
  if (const auto why = captured_runs_->take_refusal())
    pool->refused(*why, steps_.empty() ? "" : line_of(graph_, plan_.steps.back().node));
  return pool;
}

void Executor::run_paced(Run& run) {
  const auto steps = static_cast<uint32_t>(steps_.size());
  uint32_t half = 0;
  while (half < steps / 2) half = steps_[half].next;
  run_steps(run, {0, half});
  const auto mark = device_.mark(stream_);
  run_steps(run, {half, steps});
  captured_runs_->paced(mark->passed());
}

void Executor::place_outputs(Host& host) {
  for (uint32_t b = 0; b < plan_.blocks.size(); ++b)
    if (plan_.blocks[b].kind == Block::Output) place(host, b);
}

bool Executor::run_captured(Run& run, CapturePool& pool) {
  if (!captured_runs_->is_on(pool)) return false;
  place_outputs(run.host);
  const auto held = pool.hold();
  CapturedRun* const captured = captured_runs_->decide(memory_, pool);
  if (!captured) return false;
  const bool is_first = captured->places.empty();
  std::vector<Buffer> fixed;  // given back at the end, for the next capture
  if (is_first) try {
      fixed = fix_places(run.host, pool, *captured);
    } catch (const std::exception& e) {  // no pool, or no memory for it
      captured_runs_->give_up(e.what());
      return false;
    }
  std::vector<void*> own(plan_.blocks.size());
  for (uint32_t b = 0; b < own.size(); ++b) {
    own[b] = memory_[b].data;
    if (captured->places[b]) memory_[b].data = captured->places[b];
  }
  // A result may take an input's memory, which then is both.
  const auto is_result = [&](uint32_t b) {
    return plan_.blocks[b].kind == Block::Output || std::ranges::find(plan_.outputs, b) != plan_.outputs.end();
  };
  const auto copy = [&](void* to, const void* from, uint32_t b) {
    device_.copy(to, from, static_cast<size_t>(plan_.blocks[b].bytes), stream_);
  };
  for (uint32_t b : captured->staged)
    if (plan_.blocks[b].kind == Block::Input) copy(captured->places[b], own[b], b);
  launch_captured(run, pool, *captured, is_first);
  for (uint32_t b : captured->staged)
    if (is_result(b)) copy(own[b], captured->places[b], b);
  for (uint32_t b : captured->staged) memory_[b].data = own[b];
  is_first ? pool.captured() : pool.launched();
  return true;
}

std::vector<Buffer> Executor::fix_places(Host& host, CapturePool& pool, CapturedRun& captured) {
  const auto inside = pool.enter();
  captured.places.resize(plan_.blocks.size());
  std::vector<Buffer> memory{with_memory(host, [&] { return host.allocate(static_cast<size_t>(plan_.arena_bytes)); })};
  const auto fix = [&](uint32_t b) {
    void* const place = memory.emplace_back(allocate(host, b)).data;
    captured.places[b] = place;
    for (uint32_t guest : guests_[b]) captured.places[guest] = static_cast<char*>(place) + plan_.blocks[guest].offset;
  };
  for (uint32_t b = 0; b < plan_.blocks.size(); ++b) {
    const Block& block = plan_.blocks[b];
    if (block.kind == Block::Arena && block.host == kNoBlock)
      captured.places[b] = static_cast<char*>(memory[0].data) + block.offset;
    else if (block.kind == Block::Segment)
      fix(b);
  }
  for (uint32_t b : captured.staged) fix(b);
  return memory;
}

void Executor::launch_captured(Run& run, CapturePool& pool, CapturedRun& captured, bool is_first) {
  uint32_t s = 0;
  for (CapturedRun::Stretch& stretch : captured.stretches) {
    const StepRange steps = stretch.steps;
    run_steps(run, {s, steps.first});
    if (is_first) stretch.launches = capture(run, pool, captured, steps);
    if (stretch.launches)
      attempt(run, steps.first, [&] { stretch.launches->launch(memory_, run.scalars, stream_); });
    else
      run_steps(run, steps);
    s = steps.last;
  }
  run_steps(run, {s, static_cast<uint32_t>(steps_.size())});
}

std::unique_ptr<CapturedLaunches> Executor::capture(Run& run, CapturePool& pool, CapturedRun& captured,
                                                    StepRange steps) {
  if (!captured_runs_->is_on(pool)) return nullptr;  // an earlier stretch could not be
  struct Restore {
    void*& stream;
    void* outside;
    ~Restore() { stream = outside; }
  } restore{stream_, std::exchange(stream_, pool.stream())};
  // What is made here and needed no more may be used again here; what was there before is needed until this has run.
  const auto give_back = [&](uint32_t step) {
    for (uint32_t b : steps_[steps_[step].next - 1].dead)
      if (plan_.blocks[b].first >= steps.first) memory_[b] = {};
  };
  std::unique_ptr<CapturedLaunches> launches;
  try {
    const auto inside = pool.enter();
    launches = device_.capture(stream_, [&] {
      for (uint32_t s = steps.first; s < steps.last; s = steps_[s].next) {
        do_step(run.host, s, run.scalars);
        if (const PlanStep& step = plan_.steps[s]; step.kind == PlanStep::External || step.kind == PlanStep::Eager)
          for (const BlockView& v : step.results) captured.places[v.block] = memory_[v.block].data;
        give_back(s);
      }
    });
  } catch (const std::exception& e) {
    // Nothing has run yet: these steps do one by one, and fail as they do if that is their own fault.
    captured_runs_->give_up(e.what());
    return nullptr;
  }
  for (uint32_t b = 0; b < plan_.blocks.size(); ++b)
    if (captured.places[b]) memory_[b].data = captured.places[b];
  return launches;
}

}  // namespace lazuli::jit
