#include "jit/part_cache.h"
#include <algorithm>
#include "ir/hash.h"
#include "jit/sequence.h"

namespace lazuli::jit {
namespace {

// Whether code made under `a` serves under `b`.
bool same_code(const CompileOptions& a, const CompileOptions& b) {
  return a.device == b.device && a.fusion == b.fusion && a.pack == b.pack &&
         a.interpret_kernels == b.interpret_kernels && a.matmul == b.matmul && a.threads == b.threads &&
         a.disabled_passes == b.disabled_passes;
}

uint64_t hash_of(std::span<const int64_t> code) {
  uint64_t h = code.size();
  for (int64_t word : code) h = ir::mix(h, static_cast<uint64_t>(word));
  return ir::for_lookup(h);
}

// Numbers for the values that a sequence passes about.
class Numbers {
 public:
  Numbers(const ir::Listing& listing, std::span<const ir::ValueId> live) : numbers_(listing.types.size(), UINT32_MAX) {
    for (const ir::Entry& e : listing.entries)
      if (e.op == ir::Op::input) {
        numbers_[e.first_result] = static_cast<uint32_t>(listing.attrs(e)[1]);
        ++inputs_;
      }
    count_ = inputs_;
    for (ir::ValueId v : live) numbers_[v] = count_++;
  }
  uint32_t of(ir::ValueId v) {
    if (numbers_[v] == UINT32_MAX) numbers_[v] = count_++;
    return numbers_[v];
  }
  uint32_t inputs() const { return inputs_; }
  uint32_t count() const { return count_; }

 private:
  std::vector<uint32_t> numbers_;
  uint32_t inputs_ = 0, count_ = 0;
};

// How many parts do what an earlier one did with the same parameter: an input of the listing that a product reads. Layers of
// a network have parameters of their own, the turns of a loop share them.
int64_t count_turns(const ir::Listing& listing, const ir::Parts& parts, const std::vector<uint64_t>& hashes) {
  std::vector<const ir::Entry*> maker(listing.types.size());
  for (const ir::Entry& e : listing.entries)
    for (uint16_t r = 0; r < e.results; ++r) maker[e.first_result + r] = &e;
  std::unordered_set<uint64_t> seen;
  int64_t turns = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    std::vector<uint64_t> own;
    for (uint32_t n = parts.begin(p).nodes; n < parts.ends[p].nodes; ++n) {
      const ir::Entry& e = listing.entries[parts.nodes[n].entry];
      if (parts.nodes[n].input != ir::kAbsent || !ir::is_contraction(e.op)) continue;
      for (ir::ValueId v : listing.operands(e)) {
        while (ir::is_view(maker[v]->op)) v = listing.operands(*maker[v])[0];
        if (maker[v]->op == ir::Op::input) own.push_back(ir::mix(hashes[p], v));
      }
    }
    turns += std::ranges::any_of(own, [&](uint64_t key) { return seen.contains(key); });
    seen.insert(own.begin(), own.end());
  }
  return turns;
}

}  // namespace

std::shared_ptr<Executable> PartCache::find(uint64_t hash, std::span<const int64_t> code) {
  const auto [begin, end] = found_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (std::ranges::equal(it->second->code, code)) {
      known_.splice(known_.begin(), known_, it->second);
      return it->second->executable;
    }
  return nullptr;
}

// What is dumped is compiled for that.
std::shared_ptr<Executable> PartCache::executable_for(const ir::Listing& listing, const ir::Parts& parts, size_t part,
                                                      uint64_t hash, const CompileOptions& options, LineText line_text,
                                                      CompileStats& stats) {
  ++stats.parts;
  const std::span code = parts.code_of(part);
  if (options.dump_folder.empty())
    if (auto known = find(hash, code)) return known;
  CompileOptions own = options;
  if (!own.dump_folder.empty()) own.dump_folder += "-part-" + std::to_string(part);
  ir::Graph graph = ir::graph_of(listing, parts, part, line_text);
  std::vector<int64_t> calls;
  for (const ir::Node& node : graph.nodes)
    if (node.op == ir::Op::external) calls.push_back(node.attrs.number(0));
  std::shared_ptr<Executable> executable = jit::compile(std::move(graph), own);
  stats += executable->stats();
  ++stats.new_parts;
  known_.push_front({hash, {code.begin(), code.end()}, std::move(calls), executable});
  found_.emplace(hash, known_.begin());
  return executable;
}

std::unique_ptr<Executable> PartCache::compile(const ir::Listing& listing, std::span<const ir::ValueId> live,
                                               const std::vector<bool>& donated, const CompileOptions& options,
                                               LineText line_text) {
  if (!same_code(options, options_)) {
    found_.clear();
    known_.clear();
    options_ = options;
  }
  const ir::Parts parts = ir::cut(listing, live, donated);
  Numbers numbers(listing, live);
  SequencePlan plan;
  CompileStats stats;
  std::vector<uint64_t> hashes;
  for (size_t p = 0; p < parts.size(); ++p) {
    hashes.push_back(hash_of(parts.code_of(p)));
    plan.parts.push_back({executable_for(listing, parts, p, hashes[p], options, line_text, stats), parts.ends[p].inputs,
                          parts.ends[p].scalars, parts.ends[p].outputs});
  }
  for (const ir::Parts::Input& x : parts.inputs)
    plan.inputs.push_back({numbers.of(x.value), x.last, x.offset, x.bytes});
  for (const ir::Parts::Output& x : parts.outputs) plan.outputs.push_back(numbers.of(x.value));
  plan.scalars = parts.scalars;
  plan.input_count = numbers.inputs();
  plan.output_count = live.size();
  plan.value_count = numbers.count();
  stats.turns = count_turns(listing, parts, hashes);
  forget();
  return make_sequence(std::move(plan), stats);
}

void PartCache::forget() {
  while (known_.size() > most_) {
    const auto last = std::prev(known_.end());
    const auto [begin, end] = found_.equal_range(last->hash);
    found_.erase(std::find_if(begin, end, [&](const auto& entry) { return entry.second == last; }));
    known_.erase(last);
  }
}

void PartCache::find_external_calls(std::unordered_set<int64_t>& calls) const {
  for (const Known& k : known_) calls.insert(k.external_calls.begin(), k.external_calls.end());
}

}  // namespace lazuli::jit
