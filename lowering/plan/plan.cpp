#include "lowering/plan/plan.h"
#include <algorithm>
#include "ir/error.h"
#include "lowering/fusion/epilogue.h"
#include "lowering/fusion/fusion.h"
#include "lowering/index/memory_layout.h"
#include "lowering/libraries/post_ops.h"
#include "lowering/nest/schedules/accumulate.h"
#include "lowering/nest/schedules/launch.h"
#include "lowering/nest/schedules/pairs.h"
#include "lowering/nest/schedules/repeat.h"
#include "lowering/nest/schedules/split.h"
#include "lowering/nest/schedules/tile.h"
#include "lowering/plan/in_place.h"
#include "lowering/plan/joint_launches.h"

namespace lazuli::lowering {
namespace {

using ir::Value;

uint32_t add_block(Plan& plan, Block::Kind kind, uint32_t index, ir::Size bytes) {
  Block b;
  b.kind = kind;
  b.index = index;
  b.bytes = bytes;
  plan.blocks.push_back(b);
  return static_cast<uint32_t>(plan.blocks.size() - 1);
}

void make_call(const ir::Graph& graph, const PlanOptions& options, PlanStep& step) {
  const ir::Node& node = graph.nodes[step.node];
  std::vector<Layout> operands, results;
  for (const BlockView& v : std::span(step.operands).first(node.inputs.size()))
    operands.push_back({v.type.dtype, v.type.shape, v.strides});
  for (const BlockView& v : step.results) results.push_back({v.type.dtype, v.type.shape, v.strides});
  if (step.may_pack) {
    step.packed = options.libraries->make_packed(node, operands, results, step.post_ops);
    step.call = std::move(step.packed.call);
  }
  if (!step.call) step.call = options.libraries->make(node, operands, results, step.post_ops);
  LAZULI_CHECK(step.call, "a library has no call for " + std::string(ir::name(node.op)));
}

class Planner {
 public:
  Planner(const ir::Graph& graph, const PlanOptions& options)
      : graph_(graph), options_(options), fusion_(fuse(graph, {options.fusion, options.libraries, options.threads})) {}

  Plan run() {
    for (FusionStep& step : fusion_.steps) step.group >= 0 ? add_kernel(step.group) : add_call(step.node);
    if (options_.accumulate < INT64_MAX) join_column_sums();
    split_reductions();
    for (PlanStep& step : plan_.steps)
      if (step.kind == PlanStep::Kernel) find_pairs(step.loops);
    place_values();
    bind();
    return std::move(plan_);
  }

 private:
  uint32_t home(Value v) const { return fusion_.values[fusion_.values.home(v)]; }

  void add_kernel(int32_t group) {
    const FusionGroup& g = fusion_.groups[group];
    PlanStep step;
    step.loops = make_loops(graph_, *g.terms, g.needed);
    for (uint32_t t = 0; t < g.terms->size(); ++t)
      if (const Term& x = (*g.terms)[t]; x.kind == Term::Apply || x.kind == Term::Reduce)
        step.nodes.push_back(x.value.node);
    std::sort(step.nodes.begin(), step.nodes.end());
    step.nodes.erase(std::unique(step.nodes.begin(), step.nodes.end()), step.nodes.end());
    step.node = g.terms->stores().back().root.target.node;
    if (options_.tiles) {
      unroll_copies(step.loops);
      choose_tile(step.loops);
    }
    choose_launch(step.loops, options_.threads);
    if (options_.row_bounds) choose_row_bound(step.loops);
    plan_.steps.push_back(std::move(step));
  }

  void split_reductions() {
    std::vector<PlanStep> steps;
    for (PlanStep& step : plan_.steps) {
      auto split = step.kind == PlanStep::Kernel && step.partials == kNoBlock
                       ? split_reduction(step.loops, options_.threads)
                       : std::nullopt;
      steps.push_back(std::move(step));
      if (split) steps.push_back(cut_in_two(steps.back(), *std::move(split)));
    }
    plan_.steps = std::move(steps);
  }

  // Returns the step that combines what `step`, from now on partial, leaves.
  PlanStep cut_in_two(PlanStep& step, SplitReduction split) {
    PlanStep combine;
    combine.node = step.node;
    combine.loops = std::move(split.combine);
    combine.partials = step.partials = add_block(Block::Arena, 0, split.partial_bytes);
    step.chunk_dim = split.chunk_dim;
    step.chunk_total = step.loops.sizes[split.chunk_dim];
    step.chunks = split.chunks;
    step.loops = std::move(split.partial);
    step.kept_points = partial_points(step.loops);
    return combine;
  }

  // A kernel that sums over rows joins one that reduces them and reads the same.
  void join_column_sums() {
    for (uint32_t c = 0; c < plan_.steps.size(); ++c) {
      const Loops& columns = plan_.steps[c].loops;
      if (columns.nest.schedule != Schedule::Column || columns.nest.reduced == 0) continue;
      for (uint32_t r = 0; r < plan_.steps.size(); ++r) {
        if (plan_.steps[r].kind != PlanStep::Kernel || plan_.steps[r].partials != kNoBlock) continue;
        auto joined = accumulate_columns(plan_.steps[r].loops, columns, options_.threads, options_.accumulate);
        const uint32_t first = std::min(c, r), last = std::max(c, r);
        const bool early = joined && may_swap(first, last, last);
        if (!early && !(joined && may_swap(first + 1, last + 1, first))) continue;
        PlanStep rows = std::move(plan_.steps[r]);
        rows.nodes.insert(rows.nodes.end(), plan_.steps[c].nodes.begin(), plan_.steps[c].nodes.end());
        PlanStep combine = cut_in_two(rows, *std::move(joined));
        combine.node = plan_.steps[c].node;
        // Where the two stand alone there is room for both.
        plan_.steps.erase(plan_.steps.begin() + (early ? last : first));
        const auto at = plan_.steps.begin() + (early ? first : last - 1);
        *at = std::move(rows);
        plan_.steps.insert(at + 1, std::move(combine));
        break;
      }
    }
  }

  // Whether `step` may run on the other side of steps [begin, end).
  bool may_swap(uint32_t begin, uint32_t end, uint32_t step) const {
    const auto [reads, makes] = values_of(plan_.steps[step]);
    for (uint32_t s = begin; s < end; ++s) {
      if (s == step) continue;
      const auto [others_reads, others_makes] = values_of(plan_.steps[s]);
      if (meet(makes, others_reads) || meet(makes, others_makes) || meet(reads, others_makes)) return false;
    }
    return true;
  }

  static bool meet(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
    return std::find_first_of(a.begin(), a.end(), b.begin(), b.end()) != a.end();
  }

  // What a step reads and makes: numbers of home values, as long as steps have no blocks.
  std::pair<std::vector<uint32_t>, std::vector<uint32_t>> values_of(const PlanStep& step) const {
    std::vector<uint32_t> reads, makes;
    for (size_t a = 0; a < step.loops.accesses.size(); ++a)
      if (!step.loops.accesses[a].partial)
        (step.loops.nest.accesses[a].store ? makes : reads).push_back(home(step.loops.accesses[a].value));
    for (const BlockView& v : step.operands) reads.push_back(v.block);
    for (const BlockView& v : step.results)
      if (v.block != kNoBlock) makes.push_back(v.block);
    return {std::move(reads), std::move(makes)};
  }

  void add_call(uint32_t n) {
    const ir::Node& node = graph_.nodes[n];
    PlanStep step;
    step.node = n;
    step.nodes = {n};
    step.kind = ir::info(node.op).kind == ir::Kind::External ? PlanStep::External : PlanStep::Library;
    Value weights;  // the memory that operand kPackedOperand lies in
    for (Value x : ir::memory_operands(node)) {
      BlockView view;
      if (x) {
        Value obstacle;
        const auto operand = strided_operand(graph_, fusion_.values, x, obstacle);
        if (step.operands.size() == kPackedOperand) weights = fusion_.values.home(operand->base);
        view.block = home(operand->base);  // a value for now; bind() makes it a block
        view.type = graph_.type(x);
        view.strides = operand->window.strides;
        view.byte_offset = operand->window.offset * ir::item_size(view.type.dtype);
      }
      step.operands.push_back(std::move(view));
    }
    const Epilogue* epilogue = fusion_.epilogues->of(n);
    for (uint32_t r = 0; r < node.types.size(); ++r) {
      const Value result = epilogue ? epilogue->result : Value{n, r};
      const uint32_t block = fusion_.values.stored(result) ? home(result) : kNoBlock;  // a value, too
      step.results.push_back({block, 0, node.types[r], strides_of(node.types[r].shape, result, epilogue)});
    }
    if (step.kind == PlanStep::External) {
      step.external_call = node.attrs.size(0);
      for (Value x : std::span(node.inputs).subspan(step.operands.size()))
        step.numbers.push_back(static_cast<uint32_t>(graph_[x].attrs.number(0)));
    } else {
      step.may_pack = options_.pack && may_pack(weights);
      if (epilogue) add_post_ops(step, *epilogue);
      if (!options_.libraries->serves(node)) step.kind = PlanStep::Eager;
      LAZULI_CHECK(step.kind != PlanStep::Eager || step.post_ops.empty(), "an eager kernel takes no epilogue");
    }
    plan_.steps.push_back(std::move(step));
  }

  // In which a call writes a value of this shape. Of another shape than that, what it leaves in memory is row-major.
  ir::Dims strides_of(const ir::Dims& shape, Value result, const Epilogue* epilogue) const {
    if (epilogue && !epilogue->strides.empty()) return epilogue->strides;
    return graph_.type(result).shape == shape ? memory_strides(graph_, fusion_.values, result)
                                              : ir::contiguous_strides(shape);
  }

  void add_post_ops(PlanStep& step, const Epilogue& epilogue) {
    const ir::Type& type = graph_.nodes[step.node].types[0];
    step.post_ops = epilogue.ops;
    step.nodes.insert(step.nodes.end(), epilogue.nodes.begin(), epilogue.nodes.end());
    auto op = step.post_ops.begin();
    for (const StridedOperand& x : epilogue.operands) {
      const auto window = in_memory(graph_, fusion_.values, x.base, type.shape, x.window);
      LAZULI_CHECK(window, "a post-op's operand has no strides");
      while (!has_operand(*op)) ++op;
      op->steady = is_steady(x.base.node);
      op++->operand.strides = window->strides;
      step.operands.push_back({home(x.base), window->offset * ir::item_size(type.dtype), type, window->strides});
    }
  }

  // Whether nothing decides the node's value but numbers and inputs that may be the same in the next run. A run-time
  // number may be, too: beside parameters stands the epsilon of a norm, as a rule.
  bool is_steady(uint32_t n) {
    for (uint32_t i = static_cast<uint32_t>(steady_.size()); i <= n; ++i) {
      const ir::Node& node = graph_.nodes[i];
      if (ir::is_leaf(node.op))
        steady_.push_back(node.op == ir::Op::constant || node.op == ir::Op::scalar || may_pack({i, 0}));
      else
        steady_.push_back((ir::is_elementwise(node.op) || ir::is_view(node.op)) &&
                          std::ranges::all_of(node.inputs, [&](Value x) { return !x || steady_[x.node]; }));
    }
    return steady_[n];
  }

  // What a run does not write over may be the same in the next one: an input that is neither donated nor fleeting.
  bool may_pack(Value v) const {
    if (!v || graph_[v].op != ir::Op::input) return false;
    const auto position = static_cast<size_t>(graph_[v].attrs.number(0));
    const auto has = [&](const std::vector<bool>& flags) { return position < flags.size() && flags[position]; };
    return !has(graph_.donated) && !has(graph_.fleeting);
  }

  // Gives every home value that steps or outputs mention its block.
  void place_values() {
    block_of_.assign(fusion_.values.count(), kNoBlock);
    std::vector<int32_t> output_of(fusion_.values.count(), -1);
    for (size_t i = graph_.outputs.size(); i-- > 0;) output_of[home(graph_.outputs[i])] = static_cast<int32_t>(i);
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      const ir::Node& node = graph_.nodes[n];
      if (node.op != ir::Op::input) continue;
      block_of_[home({n, 0})] =
          add_block(Block::Input, static_cast<uint32_t>(node.attrs.number(0)), node.types[0].bytes());
    }
    const InPlace in_place(
        graph_, *options_.libraries, plan_.steps, [&](Value v) { return home(v); }, fusion_.values.count());
    for (uint32_t s = 0; s < plan_.steps.size(); ++s) {
      PlanStep& step = plan_.steps[s];
      for (size_t a = 0; a < step.loops.accesses.size(); ++a)
        if (step.loops.nest.accesses[a].store && !step.loops.accesses[a].partial)
          place(home(step.loops.accesses[a].value), graph_.type(step.loops.accesses[a].value).bytes(), s, output_of,
                in_place);
      for (const BlockView& r : step.results) {
        if (r.block == kNoBlock) continue;
        if (step.kind == PlanStep::External || step.kind == PlanStep::Eager)
          block_of_[r.block] = add_block(Block::External, 0, r.type.bytes());
        else
          place(r.block, r.type.bytes(), s, output_of, in_place);
      }
    }
    for (Value v : graph_.outputs) {
      const uint32_t h = home(v);
      if (block_of_[h] == kNoBlock) place_fresh(h, graph_.type(v).bytes(), output_of[h]);
      plan_.outputs.push_back(block_of_[h]);
    }
  }

  void place(uint32_t h, ir::Size bytes, uint32_t s, const std::vector<int32_t>& output_of, const InPlace& in_place) {
    if (block_of_[h] != kNoBlock) return;
    const uint32_t taken = in_place.taken_by(s, h);
    const uint32_t block = taken == kNoBlock ? kNoBlock : block_of_[taken];
    if (block == kNoBlock) return place_fresh(h, bytes, output_of[h]);
    Block& b = plan_.blocks[block];
    if (b.kind == Block::External || (b.kind == Block::Output && output_of[h] >= 0))
      return place_fresh(h, bytes, output_of[h]);
    b.donated = b.kind == Block::Input;
    if (b.kind == Block::Arena && output_of[h] >= 0) {
      b.kind = Block::Output;
      b.index = static_cast<uint32_t>(output_of[h]);
    }
    block_of_[h] = block;
  }

  void place_fresh(uint32_t h, ir::Size bytes, int32_t output) {
    block_of_[h] = output >= 0 ? add_block(Block::Output, static_cast<uint32_t>(output), bytes)
                               : add_block(Block::Arena, 0, bytes);
  }

  uint32_t add_block(Block::Kind kind, uint32_t index, ir::Size bytes) {
    return lowering::add_block(plan_, kind, index, bytes);
  }

  // Steps speak of blocks from here on; uninitialized storage gets one when it is first mentioned.
  void bind() {
    auto block = [&](uint32_t h, ir::Size bytes) {
      if (block_of_[h] == kNoBlock) place_fresh(h, bytes, -1);
      return block_of_[h];
    };
    for (PlanStep& step : plan_.steps) {
      for (const BoundAccess& a : step.loops.accesses)
        step.blocks.push_back(a.partial ? step.partials : block(home(a.value), graph_.type(a.value).bytes()));
      for (auto* views : {&step.operands, &step.results})
        for (BlockView& v : *views)
          if (v.block != kNoBlock) v.block = block(v.block, v.type.bytes());
    }
    std::erase_if(plan_.steps, [&](const PlanStep& s) { return is_self_copy(s); });
  }

  // A value that took over its operand's place whole needs no copying there: each element is read from where it goes
  // (lowering/plan/in_place.h).
  static bool is_self_copy(const PlanStep& s) {
    if (s.kind != PlanStep::Kernel || s.chunks > 1 || s.loops.nest.insts.size() != 2 || s.loops.accesses.size() != 2)
      return false;
    const auto& accesses = s.loops.nest.accesses;
    return s.blocks[0] == s.blocks[1] && !accesses[0].indexed && accesses[0].dtype == accesses[1].dtype;
  }

  const ir::Graph& graph_;
  const PlanOptions& options_;
  Fusion fusion_;
  Plan plan_;
  std::vector<uint32_t> block_of_;  // by number of the home value
  std::vector<bool> steady_;        // by node, as far as it was asked
};

// Memory for what libraries want besides operands and results.
void add_scratch(Plan& plan) {
  for (PlanStep& step : plan.steps) {
    size_t scratch = 0;
    for (const auto* call : {step.call.get(), step.packed.pack.get()})
      if (call) scratch = std::max(scratch, call->scratch_bytes());
    if (scratch == 0) continue;
    step.scratch = add_block(plan, Block::Arena, 0, scratch);
    plan.blocks.back().touch(static_cast<uint32_t>(&step - plan.steps.data()));
  }
}

// Says of every block when it is alive. The steps of a launch run at once, so what one touches lives for all of it.
void touch_blocks(Plan& plan) {
  for (uint32_t s = 0; s < plan.steps.size();) {
    const auto [first, last] = plan.launch(s);
    for (; s < last; ++s) {
      const PlanStep& step = plan.steps[s];
      for (uint32_t at : {first, last - 1}) {
        for (uint32_t b : step.blocks) plan.blocks[b].touch(at);
        for (const auto* views : {&step.operands, &step.results})
          for (const BlockView& v : *views)
            if (v.block != kNoBlock) plan.blocks[v.block].touch(at);
      }
    }
  }
}

}  // namespace

Plan draft_plan(const ir::Graph& graph, const PlanOptions& options) {
  Plan plan = Planner(graph, options).run();
  if (options.groups) group_steps(plan);
  touch_blocks(plan);
  return plan;
}

void finish_plan(const ir::Graph& graph, const PlanOptions& options, Plan& plan) {
  for (PlanStep& step : plan.steps)
    if (step.kind == PlanStep::Library && !step.call) make_call(graph, options, step);
  add_scratch(plan);
  plan.arena_bytes = assign_offsets(plan.blocks);
}

Plan make_plan(const ir::Graph& graph, const PlanOptions& options) {
  Plan plan = draft_plan(graph, options);
  finish_plan(graph, options, plan);
  return plan;
}

}  // namespace lazuli::lowering
