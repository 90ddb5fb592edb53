#include "jit/executor.h"
#include <algorithm>
#include <cstring>
#include <omp.h>
#include "ir/error.h"
#include "jit/arena_pool.h"

namespace lazuli::jit {

using lowering::Block;
using lowering::BlockView;
using lowering::PlanStep;

namespace {

// Element instructions that are worth another thread; below, waking it costs more than it saves.
constexpr double kGrain = 64 * 1024;

double work_of(const lowering::Loops& loops) {
  double points = 1;
  for (int64_t n : loops.sizes) points *= static_cast<double>(n);
  return points * static_cast<double>(loops.nest.insts.size());
}

void run_units(const lowering::LoopNest& nest, lowering::KernelFn function, const int64_t* args, int64_t begin,
               int64_t end) {
  if (function)
    function(args, begin, end);
  else
    lowering::interpret(nest, args, begin, end);
}

}  // namespace

std::string where(const ir::Graph& graph, uint32_t node) {
  const ir::Node& n = graph.nodes[node];
  std::string text(ir::name(n.op));
  if (n.line < graph.lines.size() && !graph.lines[n.line].empty()) text += " (" + graph.lines[n.line] + ")";
  return text;
}

Executor::Executor(const ir::Graph& graph, lowering::Plan plan, std::vector<lowering::KernelFn> functions)
    : plan_(std::move(plan)), launches_(plan_.steps.size()), memory_(plan_.blocks.size()) {
  for (uint32_t s = 0; s < plan_.steps.size(); ++s) prepare(graph, s, functions[s]);
  for (uint32_t b = 0; b < plan_.blocks.size(); ++b) {
    const Block& block = plan_.blocks[b];
    if (block.first > block.last) continue;
    if (block.kind == Block::Output) launches_[block.first].born.push_back(b);
    const bool output = std::find(plan_.outputs.begin(), plan_.outputs.end(), b) != plan_.outputs.end();
    if (block.kind == Block::External && !output) launches_[block.last].dead.push_back(b);
  }
}

void Executor::prepare(const ir::Graph& graph, uint32_t s, lowering::KernelFn function) {
  const PlanStep& step = plan_.steps[s];
  Launch& launch = launches_[s];
  launch.where = where(graph, step.node);
  if (step.kind == PlanStep::Kernel) return prepare_kernel(graph, s, function);
  launch.operands.resize(step.operands.size());
  launch.results.resize(step.results.size());
}

void Executor::prepare_kernel(const ir::Graph& graph, uint32_t s, lowering::KernelFn function) {
  const PlanStep& step = plan_.steps[s];
  const lowering::Loops& loops = step.loops;
  const lowering::KernelArgsLayout at(loops.nest);
  Launch& launch = launches_[s];
  launch.function = function;
  launch.stride = at.total;
  launch.args.resize(at.total * step.chunks);
  launch.first_units = {0};
  for (int64_t c = 0; c < step.chunks; ++c) {
    int64_t* args = launch.args.data() + at.total * c;
    const auto base = static_cast<uint32_t>(at.total * c);
    args[0] = loops.block;
    std::copy(loops.sizes.begin(), loops.sizes.end(), args + at.sizes);
    const int64_t chunk = loops.sizes[step.chunk_dim];
    if (step.chunks > 1) args[at.sizes + step.chunk_dim] = std::min(chunk, step.chunk_total - c * chunk);
    for (size_t a = 0; a < loops.accesses.size(); ++a) {
      const lowering::BoundAccess& access = loops.accesses[a];
      const int64_t item = ir::item_size(loops.nest.accesses[a].dtype);
      const int64_t moved = access.partial ? step.kept_points : chunk * access.strides[step.chunk_dim];
      const int64_t offset = access.offset + (step.chunks > 1 ? c * moved : 0);
      launch.addresses.push_back({static_cast<uint32_t>(base + at.pointers + a), step.blocks[a], offset * item});
      std::copy(access.strides.begin(), access.strides.end(), args + at.strides + a * loops.nest.rank);
      args[at.index_strides + a] = access.index_stride;
    }
    for (size_t p = 0; p < loops.params.size(); ++p) {
      const auto arg = static_cast<uint32_t>(base + at.params + p);
      if (loops.params[p].scalar >= 0)
        launch.numbers.push_back({arg, static_cast<uint32_t>(loops.params[p].scalar)});
      else
        launch.args[arg] = loops.params[p].bits;
    }
    if (loops.nest.checks) args[at.status] = reinterpret_cast<int64_t>(&launch.status);
    launch.first_units.push_back(launch.first_units.back() + lowering::units(loops.nest, args));
  }
  for (const lowering::Check& c : loops.checks)
    launch.failures.push_back(
        where(graph, c.by.node) +
        (c.kind == lowering::Check::Index ? ": index out of range in self" : ": ZeroDivisionError"));
  launch.work = work_of(loops) * static_cast<double>(step.chunks);
}

void Executor::run(Host& host, std::span<Buffer> inputs, std::span<const bool> donate, std::span<const int64_t> scalars,
                   std::span<Buffer> outputs) {
  std::lock_guard lock(mutex_);
  struct Release {
    Executor& e;
    ~Release() { e.release(); }
  } release_at_end{*this};
  Arena arena(static_cast<size_t>(plan_.arena_bytes));
  for (uint32_t b = 0; b < plan_.blocks.size(); ++b)
    if (plan_.blocks[b].kind == Block::Arena)
      memory_[b].data = static_cast<char*>(arena.data()) + plan_.blocks[b].offset;
  place_inputs(host, inputs, donate);
  for (uint32_t s = 0; s < launches_.size(); ++s) {
    try {
      run_step(host, s, scalars);
    } catch (const ExecutionError&) {
      throw;
    } catch (const std::exception& e) {
      throw ExecutionError(launches_[s].where + ": " + e.what());
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    Buffer& made = memory_[plan_.outputs[i]];
    if (!made.owner && !made.data && plan_.blocks[plan_.outputs[i]].kind == Block::Output)
      made = host.allocate(static_cast<size_t>(plan_.blocks[plan_.outputs[i]].bytes));  // nothing ever wrote it
    outputs[i] = made;
  }
}

void Executor::release() {
  for (Buffer& b : memory_) b = {};
}

// An input that the plan writes over but that the caller keeps is copied first.
void Executor::place_inputs(Host& host, std::span<Buffer> inputs, std::span<const bool> donate) {
  for (uint32_t b = 0; b < plan_.blocks.size(); ++b) {
    const Block& block = plan_.blocks[b];
    if (block.kind != Block::Input) continue;
    memory_[b] = inputs[block.index];
    if (!block.donated || (block.index < donate.size() && donate[block.index])) continue;
    memory_[b] = host.allocate(static_cast<size_t>(block.bytes));
    if (block.bytes) std::memcpy(memory_[b].data, inputs[block.index].data, static_cast<size_t>(block.bytes));
  }
}

void Executor::run_step(Host& host, uint32_t s, std::span<const int64_t> scalars) {
  for (uint32_t b : launches_[s].born) memory_[b] = host.allocate(static_cast<size_t>(plan_.blocks[b].bytes));
  switch (plan_.steps[s].kind) {
    case PlanStep::Kernel:
      run_kernel(s, scalars);
      break;
    case PlanStep::Library:
      run_library(s);
      break;
    case PlanStep::External:
      run_external(host, s);
      break;
  }
  for (uint32_t b : launches_[s].dead) memory_[b] = {};
}

void Executor::run_kernel(uint32_t s, std::span<const int64_t> scalars) {
  Launch& launch = launches_[s];
  const lowering::LoopNest& nest = plan_.steps[s].loops.nest;
  for (const Address& a : launch.addresses) launch.args[a.arg] = reinterpret_cast<int64_t>(address(a.block) + a.offset);
  for (const Number& n : launch.numbers) launch.args[n.arg] = scalars[n.scalar];
  launch.status = 0;
  const int64_t units = launch.first_units.back();
  // Units [begin, end) of all chunks, in order.
  auto run_range = [&](int64_t begin, int64_t end) {
    for (size_t c = 0; c + 1 < launch.first_units.size(); ++c) {
      const int64_t first = std::max(begin, launch.first_units[c]), last = std::min(end, launch.first_units[c + 1]);
      if (first < last)
        run_units(nest, launch.function, launch.args.data() + c * launch.stride, first - launch.first_units[c],
                  last - launch.first_units[c]);
    }
  };
  const int64_t wanted = std::min<int64_t>(units, static_cast<int64_t>(launch.work / kGrain));
  const int threads = static_cast<int>(std::min<int64_t>(wanted, omp_get_max_threads()));
  if (threads <= 1) {
    run_range(0, units);
  } else {
#pragma omp parallel num_threads(threads)
    {
      const int64_t n = omp_get_num_threads(), i = omp_get_thread_num();
      run_range(units * i / n, units * (i + 1) / n);
    }
  }
  if (launch.status != 0) throw ExecutionError(launch.failures[static_cast<size_t>(launch.status - 1)]);
}

void Executor::run_library(uint32_t s) {
  PlanStep& step = plan_.steps[s];
  Launch& launch = launches_[s];
  for (size_t i = 0; i < step.operands.size(); ++i) {
    const BlockView& v = step.operands[i];
    launch.operands[i] = v.block == lowering::kNoBlock ? nullptr : address(v.block) + v.byte_offset;
  }
  for (size_t i = 0; i < step.results.size(); ++i)
    launch.results[i] = address(step.results[i].block) + step.results[i].byte_offset;
  step.call->run(launch.operands.data(), launch.results.data(),
                 step.scratch == lowering::kNoBlock ? nullptr : address(step.scratch));
}

void Executor::run_external(Host& host, uint32_t s) {
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
  std::vector<ir::Type> types;
  for (const BlockView& v : step.results) types.push_back(v.type);
  std::vector<Buffer> made = host.external(step.external_call, views, types);
  LAZULI_CHECK(made.size() == types.size(), "an external call gave another number of results than recorded");
  for (size_t i = 0; i < made.size(); ++i) memory_[step.results[i].block] = std::move(made[i]);
}

}  // namespace lazuli::jit
