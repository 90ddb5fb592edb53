#include "lazy/report/describe.h"

#include <algorithm>
#include "ir/print.h"
#include "jit/device.h"
#include "lazy/memory/backing.h"

namespace lazuli::lazy {
namespace {

using lowering::PlanStep;

// Steps in columns.
struct Steps {
  c10::List<int64_t> kind, name, bytes, nest, node;
  c10::impl::GenericList nodes{c10::ListType::ofInts()};

  void add(int64_t k, int64_t n, int64_t b, int64_t number, uint32_t of, const std::vector<uint32_t>& all) {
    kind.push_back(k), name.push_back(n), bytes.push_back(b), nest.push_back(number), node.push_back(of);
    c10::List<int64_t> list;
    for (uint32_t x : all) list.push_back(x);
    nodes.push_back(list);
  }
  c10::impl::GenericDict dict() const {
    c10::impl::GenericDict d = new_dict();
    d.insert("kind", kind), d.insert("name", name), d.insert("bytes", bytes), d.insert("nest", nest);
    d.insert("node", node), d.insert("nodes", nodes);
    return d;
  }
};

std::string line_of(const ir::Graph& graph, uint32_t node) {
  const uint32_t line = graph.nodes[node].line;
  return line < graph.lines.size() ? graph.lines[line] : "";
}

c10::impl::GenericDict nodes_of(const ir::Graph& graph, Texts& texts) {
  c10::List<int64_t> op, type, line, bytes;
  c10::impl::GenericList inputs{c10::ListType::ofInts()};
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const ir::Node& node = graph.nodes[n];
    op.push_back(texts.number(std::string(ir::name(node.op))));
    std::string types;
    int64_t size = 0;
    for (const ir::Type& t : node.types) types += (types.empty() ? "" : ", ") + ir::to_string(t), size += t.bytes();
    type.push_back(texts.number(types));
    line.push_back(texts.number(line_of(graph, n)));
    bytes.push_back(size);
    c10::List<int64_t> from;
    for (ir::Value v : node.inputs)
      if (v) from.push_back(v.node);
    inputs.push_back(from);
  }
  c10::impl::GenericDict d = new_dict();
  d.insert("op", op), d.insert("type", type), d.insert("line", line), d.insert("bytes", bytes);
  d.insert("inputs", inputs);
  return d;
}

c10::List<int64_t> outputs_of(const ir::Graph& graph) {
  c10::List<int64_t> out;
  for (ir::Value v : graph.outputs) out.push_back(v.node);
  return out;
}

// What a kernel reads and writes, each element that an access may touch once.
int64_t bytes_of(const lowering::Loops& loops) {
  int64_t bytes = 0;
  for (size_t a = 0; a < loops.accesses.size(); ++a) {
    int64_t elements = 1;
    for (size_t d = 0; d < loops.sizes.size() && d < loops.accesses[a].strides.size(); ++d)
      if (loops.accesses[a].strides[d] != 0) elements *= loops.sizes[d];
    bytes += elements * ir::item_size(loops.nest.accesses[a].dtype);
  }
  return bytes;
}

int64_t bytes_of(const PlanStep& step) {
  if (step.kind == PlanStep::Kernel) return bytes_of(step.loops);
  int64_t bytes = 0;
  for (const auto* views : {&step.operands, &step.results})
    for (const lowering::BlockView& v : *views)
      if (v.block != lowering::kNoBlock) bytes += v.type.bytes();
  return bytes;
}

std::string name_of(const ir::Graph& graph, const PlanStep& step) {
  if (step.kind == PlanStep::Kernel) return jit::label(graph, step);
  const std::string op(ir::name(graph.nodes[step.node].op));
  return step.call ? op + ": " + step.call->describe() : op;
}

c10::impl::GenericDict fullest_of(const ir::Graph& graph, const lowering::Plan& plan) {
  constexpr size_t kMost = 24;
  const lowering::Fullest full = lowering::fullest(plan);
  const auto values = lowering::first_values(plan, graph);
  c10::List<int64_t> node, bytes;
  for (size_t i = 0; i < full.blocks.size() && i < kMost; ++i) {
    const ir::Value v = values[full.blocks[i]];
    node.push_back(v ? int64_t{v.node} : -1);
    bytes.push_back(plan.blocks[full.blocks[i]].bytes);
  }
  c10::impl::GenericDict d = new_dict();
  d.insert("step", int64_t{full.step}), d.insert("bytes", full.bytes), d.insert("node", node);
  d.insert("node_bytes", bytes);
  return d;
}

}  // namespace

c10::impl::GenericDict new_dict() { return c10::impl::GenericDict(c10::StringType::get(), c10::AnyType::get()); }

int64_t Texts::number(const std::string& text) {
  const auto [it, fresh] = numbers_.try_emplace(text, static_cast<int64_t>(texts_.size()));
  if (fresh) texts_.push_back(text);
  return it->second;
}

c10::List<std::string> Texts::list() const {
  c10::List<std::string> list;
  for (const std::string& t : texts_) list.push_back(t);
  return list;
}

int64_t Nests::number(std::span<const PlanStep> launch, const std::string& name) {
  const lowering::LoopNest& nest = launch[0].loops.nest;
  const uint64_t hash = nest.hash();
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (known_[static_cast<size_t>(it->second)].launch[0].loops.nest == nest) return it->second;
  const auto number = static_cast<int64_t>(known_.size());
  by_hash_.emplace(hash, number);
  known_.push_back({{launch.begin(), launch.end()}, name});
  return number;
}

c10::impl::GenericList Nests::texts() const {
  c10::impl::GenericList list{c10::AnyType::get()};
  for (size_t i = 0; i < known_.size(); ++i) {
    c10::impl::GenericDict d = new_dict();
    d.insert("name", known_[i].name);
    for (const auto& [ending, text] : backing().code().texts(known_[i].launch, "k" + std::to_string(i)))
      d.insert(ending, text);
    list.push_back(d);
  }
  return list;
}

c10::impl::GenericDict describe(const ir::Graph& graph, const lowering::Plan& plan, Texts& texts, Nests& nests) {
  Steps steps;
  for (uint32_t s = 0; s < plan.steps.size(); ++s) {
    const PlanStep& step = plan.steps[s];
    const std::string name = name_of(graph, step);
    const auto [first, last] = plan.launch(s);
    int64_t nest = -1;
    if (step.kind == PlanStep::Kernel && !step.joined)
      nest = nests.number(std::span(plan.steps.data() + first, last - first), name);
    const std::vector<uint32_t> only{step.node};
    const std::vector<uint32_t>& all = step.nodes.empty() ? only : step.nodes;
    // What runs in the launch before it has its time and its code there.
    steps.add(step.joined ? 4 : step.kind, texts.number(name), bytes_of(step), nest, step.node, all);
  }
  c10::impl::GenericDict d = new_dict();
  d.insert("nodes", nodes_of(graph, texts)), d.insert("steps", steps.dict()), d.insert("outputs", outputs_of(graph));
  d.insert("arena", plan.arena_bytes), d.insert("fullest", fullest_of(graph, plan)), d.insert("planned", true);
  return d;
}

c10::impl::GenericDict describe(const ir::Graph& graph, Texts& texts) {
  Steps steps;
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const ir::Node& node = graph.nodes[n];
    int64_t bytes = 0;
    for (const ir::Type& t : node.types) bytes += t.bytes();
    for (ir::Value v : node.inputs)
      if (v) bytes += graph.type(v).bytes();
    // Views move nothing.
    steps.add(5, texts.number(std::string(ir::name(node.op))), ir::is_view(node.op) ? 0 : bytes, -1, n, {n});
  }
  c10::impl::GenericDict d = new_dict();
  d.insert("nodes", nodes_of(graph, texts)), d.insert("steps", steps.dict()), d.insert("outputs", outputs_of(graph));
  d.insert("arena", int64_t{0}), d.insert("planned", false);
  return d;
}

}  // namespace lazuli::lazy
