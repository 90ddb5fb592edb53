#include "jit/run/executor.h"
#include <algorithm>
#include "ir/error.h"
#include "jit/run/packed_operands.h"

namespace lazuli::jit {

using lowering::Block;
using lowering::BlockView;
using lowering::kFactorOperand;
using lowering::kPackedOperand;
using lowering::PlanStep;

namespace {

// The failure that eager raises: steps need not run in the program's order.
const std::exception_ptr& earliest(const Failures& by_node) {
  return *std::ranges::find_if(by_node, [](const std::exception_ptr& e) { return e != nullptr; });
}

std::string text_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& e) {
    return e.what();
  }
}

std::string with_line(std::string text, const std::string& line) {
  return line.empty() ? text : text + " (" + line + ")";
}

std::string name_of(const ir::Graph& graph, const PlanStep& step) {
  const bool library = step.kind == PlanStep::Library, kernel = step.kind == PlanStep::Kernel;
  const std::string op(ir::name(graph.nodes[step.node].op));
  const std::string text = library ? op + ": " + step.call->describe() : kernel ? label(graph, step) : op;
  return with_line(text, line_of(graph, step.node));
}
}  // namespace

std::string line_of(const ir::Graph& graph, uint32_t node) {
  const uint32_t line = graph.nodes[node].line;
  return line < graph.lines.size() ? graph.lines[line] : "";
}

std::string where(const ir::Graph& graph, uint32_t node) {
  return with_line(std::string(ir::name(graph.nodes[node].op)), line_of(graph, node));
}

std::string Executor::where_of(uint32_t step) const { return where(graph_, plan_.steps[step].node); }

Executor::Executor(const ir::Graph& graph, const lowering::Plan& plan, Device& device)
    : graph_(graph), plan_(plan), device_(device), steps_(plan.steps.size()) {
  for (uint32_t s = 0; s < plan_.steps.size(); ++s) {
    steps_[s].next = plan_.launch(s).last;
    steps_[s].operands.resize(plan_.steps[s].operands.size());
    steps_[s].results.resize(plan_.steps[s].results.size());
  }
  look_at_blocks();
}

void Executor::look_at_blocks() {
  memory_.resize(plan_.blocks.size());
  guests_.resize(plan_.blocks.size());
  for (auto& guests : guests_) guests.clear();
  for (Step& step : steps_) step.born.clear(), step.dead.clear();
  look_at_packed_blocks();
  for (uint32_t b = 0; b < plan_.blocks.size(); ++b) {
    const Block& block = plan_.blocks[b];
    if (block.host != lowering::kNoBlock) guests_[block.host].push_back(b);
    if (block.first > block.last) continue;
    if (block.kind == Block::Output || block.kind == Block::Segment) steps_[block.first].born.push_back(b);
    const bool output = std::find(plan_.outputs.begin(), plan_.outputs.end(), b) != plan_.outputs.end();
    if ((block.kind == Block::External && !output) || block.kind == Block::Segment)
      steps_[block.last].dead.push_back(b);
  }
}

// Which blocks are read by calls alone that pack them, all in one order.
void Executor::look_at_packed_blocks() {
  is_only_packed_.assign(plan_.blocks.size(), true);
  std::vector<const std::string*> orders(plan_.blocks.size());
  for (const PlanStep& step : plan_.steps) {
    for (uint32_t b : step.blocks) is_only_packed_[b] = false;
    for (size_t i = 0; i < step.operands.size(); ++i) {
      const uint32_t b = step.operands[i].block;
      if (b == lowering::kNoBlock) continue;
      if (i != kPackedOperand || !step.packed.pack || (orders[b] && *orders[b] != step.packed.order))
        is_only_packed_[b] = false;
      else
        orders[b] = &step.packed.order;
    }
    for (const BlockView& v : step.results)
      if (v.block != lowering::kNoBlock) is_only_packed_[v.block] = false;
  }
  for (uint32_t b : plan_.outputs) is_only_packed_[b] = false;
}

void Executor::resize() {
  look_at_blocks();
  for (Step& step : steps_)
    if (step.kernel) step.kernel->resize();
}

void Executor::load(const CompileOptions& options, Dump& dump) {
  auto kernels = device_.load(graph_, plan_, options, dump);
  for (size_t s = 0; s < steps_.size(); ++s) steps_[s].kernel = std::move(kernels[s]);
}

void Executor::run(Host& host, std::span<Buffer> inputs, std::span<const bool> donate, std::span<const int64_t> scalars,
                   std::span<Buffer> outputs) {
  std::lock_guard lock(mutex_);
  struct Release {
    Executor& e;
    ~Release() { e.release(); }
  } release_at_end{*this};
  stream_ = host.stream();
  Run run{host, scalars, host.observer(), {}};
  device_.start();
  place_inputs(host, inputs, donate);
  CapturePool* const pool = pool_for(run);
  if (!pool || !run_captured(run, *pool)) {
    const Buffer arena = make_arena(host);
    place_arena(arena);
    if (pool && captured_runs_->is_to_be_paced())
      run_paced(run);
    else
      run_steps(run, {0, static_cast<uint32_t>(steps_.size())});
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    Buffer& made = memory_[plan_.outputs[i]];
    if (!made.owner && !made.data && plan_.blocks[plan_.outputs[i]].kind == Block::Output)
      made = allocate(host, plan_.outputs[i]);  // nothing ever wrote it
    outputs[i] = made;
  }
  if (run.failed.empty()) return;
  const std::exception_ptr first = earliest(run.failed);
  throw PartialFailure(text_of(first), first, spread(std::move(run.failed)));
}

void Executor::take_failure(Run& run, uint32_t s) {
  try {
    try {
      throw;
    } catch (const OutOfMemory& e) {
      throw OutOfMemory(where_of(s) + ": " + e.what());
    } catch (const ExecutionError&) {
      throw;
    } catch (const std::exception& e) {
      std::throw_with_nested(ExecutionError(where_of(s) + ": " + e.what()));
    }
  } catch (const OutOfMemory&) {
    throw;
  } catch (const ExecutionError& e) {
    note_failure(run.failed, s, e);
    stand_in(run.host, s);
  }
}

void Executor::run_steps(Run& run, lowering::StepRange steps) {
  for (uint32_t s = steps.first; s < steps.last; s = steps_[s].next)
    attempt(run, s, [&] {
      const auto profiled = run.host.profile([&] { return name_of(graph_, plan_.steps[s]); });
      run_step(run.host, s, run.scalars, run.observer);
    });
}

void Executor::note_failure(Failures& by_node, uint32_t s, const ExecutionError& e) {
  by_node.resize(graph_.nodes.size());
  const auto note = [&](uint32_t node, const std::exception_ptr& why) {
    if (!by_node[node]) by_node[node] = why ? why : std::current_exception();
  };
  for (const auto& [node, why] : e.befell) note(node, why);
  for (const uint32_t end = steps_[s].next; e.befell.empty() && s < end; ++s) {
    note(plan_.steps[s].node, nullptr);
    for (uint32_t node : plan_.steps[s].nodes) note(node, nullptr);
  }
}

void Executor::stand_in(Host& host, uint32_t s) {
  const PlanStep& step = plan_.steps[s];
  if (step.kind != PlanStep::External && step.kind != PlanStep::Eager) return;
  for (const BlockView& v : step.results)
    if (!memory_[v.block].data) memory_[v.block] = allocate(host, v.block);
}

// What fails on operands that failed does so because of them.
Failures Executor::spread(Failures by_node) const {
  by_node.resize(graph_.nodes.size());
  for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
    const auto& inputs = graph_.nodes[n].inputs;
    const auto failed = std::ranges::find_if(inputs, [&](ir::Value v) { return v && by_node[v.node]; });
    if (failed != inputs.end()) by_node[n] = by_node[failed->node];
  }
  Failures outputs;
  for (const ir::Value v : graph_.outputs) outputs.push_back(by_node[v.node]);
  return outputs;
}

Failures Executor::failures_of(const Failures& inputs) const {
  Failures by_node(graph_.nodes.size());
  for (uint32_t n = 0; n < graph_.nodes.size(); ++n)
    if (graph_.nodes[n].op == ir::Op::input) by_node[n] = inputs[static_cast<size_t>(graph_.nodes[n].attrs.number(0))];
  return spread(std::move(by_node));
}

Buffer Executor::allocate(Host& host, uint32_t block) {
  return with_memory(host, [&] { return host.allocate(static_cast<size_t>(plan_.blocks[block].bytes)); });
}

Buffer Executor::make_arena(Host& host) {
  try {
    return with_memory(host, [&] { return device_.arena(host, static_cast<size_t>(plan_.arena_bytes)); });
  } catch (const OutOfMemory& e) {
    // No single op is to blame.
    throw OutOfMemory("temporaries of " + std::to_string(steps_.size()) + " steps up to " +
                      (steps_.empty() ? "" : where_of(static_cast<uint32_t>(steps_.size() - 1))) + ": " + e.what());
  }
}

void Executor::place(Host& host, uint32_t block) {
  memory_[block] = allocate(host, block);
  for (uint32_t guest : guests_[block])
    memory_[guest].data = static_cast<char*>(memory_[block].data) + plan_.blocks[guest].offset;
}

void Executor::place_arena(const Buffer& arena) {
  for (uint32_t b = 0; b < plan_.blocks.size(); ++b)
    if (const Block& block = plan_.blocks[b]; block.kind == Block::Arena && block.host == lowering::kNoBlock)
      memory_[b].data = static_cast<char*>(arena.data) + block.offset;
}

void Executor::release() {
  for (Buffer& b : memory_) b = {};
}

// An input that the plan writes over but that the caller keeps is copied first.
void Executor::place_inputs(Host& host, std::span<Buffer> inputs, std::span<const bool> donate) {
  PackedOperands* packed = host.packed_operands();
  for (uint32_t b = 0; b < plan_.blocks.size(); ++b) {
    const Block& block = plan_.blocks[b];
    if (block.kind != Block::Input) continue;
    memory_[b] = inputs[block.index];
    if (packed && !is_only_packed_[b]) packed->bring_back(memory_[b]);
    if (!block.donated) continue;
    if (block.index < donate.size() && donate[block.index]) {
      if (packed) packed->written(inputs[block.index]);
      continue;
    }
    try {
      memory_[b] = allocate(host, b);
    } catch (const OutOfMemory& e) {
      const bool used = block.first <= block.last;
      throw OutOfMemory("an input's copy" + (used ? " for " + where_of(block.last) : "") + ": " + e.what());
    }
    if (block.bytes) device_.copy(memory_[b].data, inputs[block.index].data, static_cast<size_t>(block.bytes), stream_);
  }
}

void Executor::run_step(Host& host, uint32_t s, std::span<const int64_t> scalars, RunObserver* observer) {
  if (!observer) return run_step(host, s, scalars);
  const auto begin = std::chrono::steady_clock::now();
  run_step(host, s, scalars);
  observer->ran(number_, graph_, plan_, s, begin, std::chrono::steady_clock::now());
}

void Executor::run_step(Host& host, uint32_t s, std::span<const int64_t> scalars) {
  do_step(host, s, scalars);
  for (uint32_t b : steps_[steps_[s].next - 1].dead) memory_[b] = {};
}

void Executor::do_step(Host& host, uint32_t s, std::span<const int64_t> scalars) {
  for (uint32_t b : steps_[s].born) {
    if (!memory_[b].data) place(host, b);  // else it was placed before
  }
  switch (plan_.steps[s].kind) {
    case PlanStep::Kernel:
      steps_[s].kernel->run(memory_, scalars, stream_);
      break;
    case PlanStep::Library:
      run_library(host, s);
      break;
    case PlanStep::External:
    case PlanStep::Eager:
      run_on_host(host, s, scalars);
      break;
  }
}

Buffer Executor::packed_operand(Host& host, uint32_t s) {
  const PlanStep& step = plan_.steps[s];
  const lowering::PackedCall& p = step.packed;
  const Buffer& whole = memory_[step.operands[kPackedOperand].block];
  const std::span<const void* const> given = std::span(steps_[s].operands).subspan(kPackedOperand);
  std::span<const char> factor;
  if (p.factor_bytes) factor = {static_cast<const char*>(given[kFactorOperand - kPackedOperand]), p.factor_bytes};
  const PackedOperands::Operand operand{whole, given[0], p.order, factor};
  PackedOperands* store = host.packed_operands();
  Buffer packed;
  if (store && (packed = store->find(operand)).data) return packed;
  if (store) store->bring_back(whole);  // packed in another order
  const bool keep = store && store->wants(operand, p.bytes);
  packed = with_memory(host, [&] { return host.allocate(p.bytes); });
  device_.call(*p.pack, given.data(), &packed.data, scratch(step), stream_);
  if (!keep) return packed;
  store->keep(operand, packed);
  if (may_let_go(step, whole)) store->replace(operand, p.unpacking, [&] { return host.let_go(whole); });
  return packed;
}

// Whether a parameter need not be there beside its packed form: nothing in the plan reads it otherwise, and nobody has
// its buffer but this run, who gave it, and the value whose buffer it is.
bool Executor::may_let_go(const PlanStep& step, const Buffer& whole) const {
  constexpr size_t kWorthIt = 64 << 10;  // bytes
  constexpr long kHolders = 3;
  const lowering::PackedCall& p = step.packed;
  return p.unpacking && !p.factor_bytes && p.unpacked_bytes == whole.bytes && whole.bytes >= kWorthIt &&
         is_only_packed_[step.operands[kPackedOperand].block] && whole.owner.use_count() <= kHolders;
}

void Executor::run_library(Host& host, uint32_t s) {
  const PlanStep& step = plan_.steps[s];
  Step& mine = steps_[s];
  const auto place = [&](const BlockView& v) {
    return v.block == lowering::kNoBlock ? nullptr : address(v.block) + v.byte_offset;
  };
  std::ranges::transform(step.operands, mine.operands.begin(), place);
  std::ranges::transform(step.results, mine.results.begin(), place);
  Buffer packed;  // until the call has returned
  if (step.packed.pack) {
    packed = packed_operand(host, s);
    mine.operands[kPackedOperand] = packed.data;
    if (step.packed.factor_bytes)
      std::copy(mine.operands.begin() + kFactorOperand + 1, mine.operands.end(),
                mine.operands.begin() + kFactorOperand);
  }
  device_.call(*step.call, mine.operands.data(), mine.results.data(), scratch(step), stream_);
}

void Executor::run_on_host(Host& host, uint32_t s, std::span<const int64_t> scalars) {
  const PlanStep& step = plan_.steps[s];
  std::vector<BufferView> views;
  for (const BlockView& v : step.operands) {
    if (v.block == lowering::kNoBlock) {
      views.push_back({});
      continue;
    }
    const int64_t item = std::max<int64_t>(1, ir::item_size(v.type.dtype));
    views.push_back({memory_[v.block], v.type, v.strides, v.byte_offset / item});
  }
  for (const uint32_t n : step.numbers) views.push_back({.number = scalars[n]});
  std::vector<ir::Type> types;
  std::vector<lowering::Layout> layouts;
  for (const BlockView& v : step.results) {
    types.push_back(v.type);
    layouts.push_back({v.type.dtype, v.type.shape, v.strides});
  }
  std::vector<Buffer> made = step.kind == PlanStep::External
                                 ? host.external(step.external_call, line_of(graph_, step.node), views, types)
                                 : host.eager(graph_.nodes[step.node], views, layouts);
  LAZULI_CHECK(made.size() == types.size(), "the host gave another number of results than recorded");
  for (size_t i = 0; i < made.size(); ++i) memory_[step.results[i].block] = std::move(made[i]);
}

}  // namespace lazuli::jit
