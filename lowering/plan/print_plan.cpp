// The plan as text. See plan.h.
#include <algorithm>
#include "ir/print.h"
#include "lowering/plan/plan.h"

namespace lazuli::lowering {
namespace {

std::string place(const Plan& plan, uint32_t b) {
  if (b == kNoBlock) return "_";
  const Block& block = plan.blocks[b];
  switch (block.kind) {
    case Block::Input:
      return "input" + std::to_string(block.index) + (block.donated ? "!" : "");
    case Block::Output:
      return "output" + std::to_string(block.index);
    case Block::External:
      return "external" + std::to_string(b);
    case Block::Segment:
      return "segment" + std::to_string(b);
    case Block::Arena:
      return (block.host == kNoBlock ? "arena" : place(plan, block.host)) + "+" + std::to_string(block.offset);
  }
  return {};
}

std::string list(std::span<const int64_t> v) {
  std::string s = "[";
  for (size_t i = 0; i < v.size(); ++i) s += (i ? "," : "") + std::to_string(v[i]);
  return s + "]";
}

void print_kernel(const Plan& plan, const PlanStep& step, std::string& out) {
  const Loops& loops = step.loops;
  out += "  sizes " + list(loops.sizes) + " block " + std::to_string(loops.block);
  if (step.chunks > 1)
    out += " chunks " + std::to_string(step.chunks) + " of dimension " + std::to_string(step.chunk_dim);
  out += "\n";
  for (size_t a = 0; a < loops.accesses.size(); ++a) {
    const BoundAccess& access = loops.accesses[a];
    out += "  access " + std::to_string(a) + ": " +
           (access.partial ? "partial" : "%" + std::to_string(access.value.node)) + " at " +
           place(plan, step.blocks[a]) + " offset " + std::to_string(access.offset) + " strides " +
           list(access.strides) + "\n";
  }
  std::string nest = loops.nest.print();
  for (size_t at = 0; at < nest.size();) {
    const size_t end = std::min(nest.find('\n', at), nest.size());
    out += "    " + nest.substr(at, end - at) + "\n";
    at = end + 1;
  }
}

void print_views(const Plan& plan, const char* what, std::span<const BlockView> views, std::string& out) {
  for (const BlockView& v : views)
    out += std::string("  ") + what + " " + ir::to_string(v.type) + " at " + place(plan, v.block) + " byte " +
           std::to_string(v.byte_offset) + " strides " + list(v.strides) + "\n";
}

// What the memory for temporaries holds when it is fullest: the blocks of that moment that take a thousandth of it or
// more.
void print_peak(const ir::Graph& graph, const Plan& plan, std::string& out) {
  const Fullest full = fullest(plan);
  out += "fullest at step " + std::to_string(full.step) + ": " + std::to_string(full.bytes) + " bytes in " +
         std::to_string(full.blocks.size()) + " places\n";
  const auto values = first_values(plan, graph);
  for (size_t i = 0; i < full.blocks.size() && plan.blocks[full.blocks[i]].bytes >= full.bytes / 1000; ++i) {
    const Block& b = plan.blocks[full.blocks[i]];
    out +=
        "  " + std::to_string(b.bytes) + " bytes, steps " + std::to_string(b.first) + " to " + std::to_string(b.last);
    if (ir::Value v = values[full.blocks[i]]) out += ": " + ir::print_node(graph, v.node);
    out += "\n";
  }
}

// When a run has most allocated, inputs aside, and of what kind.
void print_most(const Plan& plan, std::string& out) {
  struct Bytes {
    int64_t segments = 0, outputs = 0, external = 0;
    int64_t sum() const { return segments + outputs + external; }
  };
  Bytes most;
  uint32_t at = 0;
  for (uint32_t s = 0; s < plan.steps.size(); ++s) {
    Bytes now;
    for (const Block& b : plan.blocks) {
      if (b.first > b.last || s < b.first) continue;
      if (b.kind == Block::Output) now.outputs += b.bytes;
      if (s > b.last) continue;
      if (b.kind == Block::Segment) now.segments += b.bytes;
      if (b.kind == Block::External) now.external += b.bytes;
    }
    if (now.sum() > most.sum()) most = now, at = s;
  }
  out += "most allocated at step " + std::to_string(at) + ": " + std::to_string(plan.arena_bytes + most.sum()) +
         " bytes: arena " + std::to_string(plan.arena_bytes) + ", segments " + std::to_string(most.segments) +
         ", outputs " + std::to_string(most.outputs) + ", external results " + std::to_string(most.external) + "\n";
}

}  // namespace

std::vector<ir::Value> first_values(const Plan& plan, const ir::Graph& graph) {
  std::vector<ir::Value> out(plan.blocks.size());
  auto note = [&](uint32_t block, ir::Value v) {
    if (block != kNoBlock && !out[block]) out[block] = v;
  };
  for (const PlanStep& step : plan.steps) {
    if (step.kind == PlanStep::Kernel) {
      for (size_t a = 0; a < step.loops.accesses.size(); ++a) note(step.blocks[a], step.loops.accesses[a].value);
    } else {
      for (uint32_t r = 0; r < step.results.size() && r < graph.nodes[step.node].types.size(); ++r)
        note(step.results[r].block, {step.node, r});
    }
  }
  return out;
}

Fullest fullest(const Plan& plan) {
  auto in_arena = [&](const Block& b) {
    return b.kind == Block::Arena && b.first <= b.last &&
           (b.host == kNoBlock || plan.blocks[b.host].kind == Block::Segment);
  };
  std::vector<int64_t> change(plan.steps.size() + 1);
  for (const Block& b : plan.blocks)
    if (in_arena(b)) change[b.first] += b.bytes, change[b.last + 1] -= b.bytes;
  Fullest full;
  int64_t live = 0;
  for (uint32_t s = 0; s < plan.steps.size(); ++s)
    if ((live += change[s]) > full.bytes) full.bytes = live, full.step = s;
  for (uint32_t b = 0; b < plan.blocks.size(); ++b)
    if (const Block& block = plan.blocks[b]; in_arena(block) && block.first <= full.step && full.step <= block.last)
      full.blocks.push_back(b);
  std::ranges::stable_sort(full.blocks,
                           [&](uint32_t a, uint32_t b) { return plan.blocks[a].bytes > plan.blocks[b].bytes; });
  return full;
}

std::string print(const ir::Graph& graph, const Plan& plan) {
  std::string out = "arena " + std::to_string(plan.arena_bytes) + " bytes\n";
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const PlanStep& step = plan.steps[s];
    const char* kinds[] = {"kernel", "library", "external", "eager"};
    out += "step " + std::to_string(s) + ": " + kinds[step.kind];
    if (step.packed.pack) out += " packed";
    if (step.call) out += " " + step.call->describe();
    if (step.joined) out += ", in the launch of the step before";
    out += "\n";
    for (uint32_t n : step.nodes) out += "  # " + ir::print_node(graph, n) + "\n";
    if (step.kind == PlanStep::Kernel) {
      print_kernel(plan, step, out);
    } else {
      print_views(plan, "operand", step.operands, out);
      print_views(plan, "result", step.results, out);
    }
  }
  out += "outputs";
  for (uint32_t b : plan.outputs) out += " " + place(plan, b);
  out += "\n";
  print_most(plan, out);
  print_peak(graph, plan, out);
  return out;
}

}  // namespace lazuli::lowering
