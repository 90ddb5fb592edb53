#include "lowering/plan/in_place.h"
#include <algorithm>

namespace lazuli::lowering {

using ir::Value;

InPlace::InPlace(const ir::Graph& graph, const Libraries& libraries, std::span<const PlanStep> steps,
                 const std::function<uint32_t(Value)>& home, size_t count)
    : steps_(steps), home_(home), bytes_(count), kept_(count), taken_(count), users_(count) {
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const ir::Node& node = graph.nodes[n];
    for (uint32_t r = 0; r < node.types.size(); ++r) bytes_[home({n, r})] = node.types[r].bytes();
    if (node.op != ir::Op::input) continue;
    const auto position = static_cast<size_t>(node.attrs.number(0));
    if (position >= graph.donated.size() || !graph.donated[position]) kept_[home({n, 0})] = true;
  }
  for (Value v : graph.outputs) kept_[home(v)] = true;
  for (uint32_t s = 0; s < steps.size(); ++s) {
    const PlanStep& step = steps[s];
    for (size_t a = 0; a < step.loops.accesses.size(); ++a)
      if (!step.loops.nest.accesses[a].store && !step.loops.accesses[a].partial)
        users_[home(step.loops.accesses[a].value)].push_back(s);
    for (const BlockView& v : step.operands)
      if (v.block != kNoBlock) users_[v.block].push_back(s);
  }
  find_origins(graph);
  for (uint32_t s = 0; s < steps.size(); ++s) {
    consider(s);
    if (steps[s].kind == PlanStep::Library && libraries.begins_with_a_copy(graph.nodes[steps[s].node]))
      consider_call(s);
  }
}

void InPlace::find_origins(const ir::Graph& graph) {
  origins_.assign(graph.nodes.size(), kNoBlock);
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const ir::Node& node = graph.nodes[n];
    if (node.op == ir::Op::input)
      origins_[n] = home_({n, 0});
    else if ((ir::is_elementwise(node.op) || ir::is_view(node.op)) && !node.inputs.empty() && node.inputs[0])
      origins_[n] = origins_[node.inputs[0].node];
  }
}

void InPlace::consider(uint32_t s) {
  const Loops& loops = steps_[s].loops;
  std::vector<uint32_t> others;
  for (uint32_t a = 0; a < loops.accesses.size(); ++a) {
    if (!loops.nest.accesses[a].store || loops.accesses[a].partial) continue;
    const uint32_t first = origins_[loops.accesses[a].value.node];
    if (first == kNoBlock || !take(s, a, first)) others.push_back(a);
  }
  for (uint32_t a : others) take(s, a, kNoBlock);
}

// The call reads the old value only to copy it, so nothing is left to do where the result has its place.
void InPlace::consider_call(uint32_t s) {
  const PlanStep& step = steps_[s];
  const BlockView &from = step.operands[0], &to = step.results[0];
  if (from.block == kNoBlock || to.block == kNoBlock || from.byte_offset != 0 || from.strides != to.strides) return;
  if (kept_[from.block] || taken_[from.block] || bytes_[from.block] != bytes_[to.block]) return;
  if (std::ranges::count_if(users_[from.block], [&](uint32_t u) { return u >= s; }) > 1) return;
  taken_[from.block] = true;
  takings_.push_back({s, to.block, from.block});
}

bool InPlace::take(uint32_t s, uint32_t store, uint32_t only) {
  const Loops& loops = steps_[s].loops;
  const uint32_t target = home_(loops.accesses[store].value);
  for (uint32_t b = 0; b < loops.accesses.size(); ++b) {
    if (loops.nest.accesses[b].store || loops.accesses[b].partial) continue;
    const uint32_t h = home_(loops.accesses[b].value);
    if (only != kNoBlock && h != only) continue;
    if (kept_[h] || taken_[h] || bytes_[h] != bytes_[target]) continue;
    if (!matches(loops, store, h) || !later_uses_match(s, store, target, h)) continue;
    taken_[h] = true;
    takings_.push_back({s, target, h});
    return true;
  }
  return false;
}

// Every read of `taken` in these loops happens at the point, and no later than the stage, at which `store` overwrites
// what it reads.
bool InPlace::matches(const Loops& loops, uint32_t store, uint32_t taken) const {
  const BoundAccess& to = loops.accesses[store];
  const Access& to_access = loops.nest.accesses[store];
  if (to_access.indexed) return false;
  for (uint32_t b = 0; b < loops.accesses.size(); ++b) {
    const BoundAccess& from = loops.accesses[b];
    const Access& access = loops.nest.accesses[b];
    if (access.store || from.partial || home_(from.value) != taken) continue;
    // An indexed read that lies just so is of index 0: the store goes over all that there is.
    if (from.offset != to.offset || from.strides != to.strides || from.last_stage > to.first_stage ||
        ir::item_size(access.dtype) != ir::item_size(to_access.dtype))
      return false;
  }
  return true;
}

// `store` writes what it reads of `taken`, unchanged: a load and a store of two types convert.
bool InPlace::copies(const Loops& loops, uint32_t store, uint32_t taken) const {
  for (const Inst& i : loops.nest.insts) {
    if (i.code != Code::Store || i.slot != store) continue;
    const Inst& from = loops.nest.insts[i.args[0]];
    if (from.code != Code::Load || loops.accesses[from.slot].partial ||
        home_(loops.accesses[from.slot].value) != taken ||
        loops.nest.accesses[from.slot].dtype != loops.nest.accesses[store].dtype)
      return false;
  }
  return true;
}

// After `s` one kernel may still read the old value, if that is still there and it writes more of `target` just where
// it reads.
bool InPlace::later_uses_match(uint32_t s, uint32_t store, uint32_t target, uint32_t taken) const {
  uint32_t later = s;
  for (uint32_t u : users_[taken]) {
    if (u <= s) continue;
    if ((later != s && later != u) || !copies(steps_[s].loops, store, taken)) return false;
    later = u;
    const Loops& loops = steps_[u].loops;
    bool matched = false;
    for (uint32_t a = 0; a < loops.accesses.size(); ++a)
      matched |= loops.nest.accesses[a].store && !loops.accesses[a].partial &&
                 home_(loops.accesses[a].value) == target && matches(loops, a, taken);
    if (!matched) return false;
  }
  return true;
}

uint32_t InPlace::taken_by(uint32_t s, uint32_t target) const {
  for (const Taking& t : takings_)
    if (t.step == s && t.target == target) return t.taken;
  return kNoBlock;
}

}  // namespace lazuli::lowering
