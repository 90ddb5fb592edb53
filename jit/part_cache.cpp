#include "jit/part_cache.h"
#include <algorithm>
#include "ir/error.h"
#include "ir/hash.h"
#include "jit/device.h"
#include "jit/parts_ahead.h"
#include "jit/sequence.h"
#include "lowering/crew.h"

namespace lazuli::jit {
namespace {

// Plans for other sizes of one code: how many are made before it is given up, and how many are kept.
constexpr int kMostGeneric = 32;
constexpr size_t kKeptGeneric = 16;

constexpr size_t kMostProspects = 1 << 14;

// Whether code made under `a` serves under `b`.
bool same_code(const CompileOptions& a, const CompileOptions& b) {
  return a.device == b.device && a.fusion == b.fusion && a.pack == b.pack && a.other_sizes == b.other_sizes &&
         a.interpret_kernels == b.interpret_kernels && a.matmul == b.matmul && a.threads == b.threads &&
         a.disabled_passes == b.disabled_passes;
}

uint64_t hash_of(uint64_t h, std::span<const int64_t> words) {
  h = ir::mix(h, words.size());
  for (int64_t word : words) h = ir::mix(h, static_cast<uint64_t>(word));
  return h;
}

uint64_t key_at(uint64_t key, size_t n) { return ir::for_lookup(ir::mix(key, n)); }

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

std::shared_ptr<Executable> PartCache::find(const Sought& sought) {
  const auto [begin, end] = found_.equal_range(sought.hash);
  for (auto it = begin; it != end; ++it)
    if (const Known& k = *it->second;
        std::ranges::equal(k.numbers, sought.numbers()) && std::ranges::equal(k.family->code, sought.code())) {
      known_.splice(known_.begin(), known_, it->second);
      return it->second->executable;
    }
  return nullptr;
}

std::shared_ptr<PartCache::Family> PartCache::family_of(const Sought& sought) {
  const auto [begin, end] = families_.equal_range(sought.code_hash);
  for (auto it = begin; it != end; ++it)
    if (auto family = it->second.lock(); family && std::ranges::equal(family->code, sought.code())) return family;
  auto family = std::make_shared<Family>();
  family->hash = sought.code_hash;
  family->code.assign(sought.code().begin(), sought.code().end());
  families_.emplace(sought.code_hash, family);
  return family;
}

// What is dumped is compiled for that.
std::shared_ptr<Executable> PartCache::find_or_make(const Sought& sought, const CompileOptions& options,
                                                    CompileStats& stats) {
  ++stats.parts;
  if (options.dump_folder.empty())
    if (auto known = find(sought)) return known;
  const std::shared_ptr<Family> family = family_of(sought);
  std::shared_ptr<Executable> executable = make(sought, *family, options, stats);
  std::vector<int64_t> calls;
  for (uint32_t n = sought.parts.begin(sought.part).nodes; n < sought.parts.ends[sought.part].nodes; ++n) {
    const ir::Parts::Node& node = sought.parts.nodes[n];
    const ir::Entry& entry = sought.listing.entries[node.entry];
    if (node.input == ir::kAbsent && entry.op == ir::Op::external) calls.push_back(sought.listing.attrs(entry)[1]);
  }
  known_.push_front(
      {sought.hash, {sought.numbers().begin(), sought.numbers().end()}, family, std::move(calls), executable});
  found_.emplace(sought.hash, known_.begin());
  return executable;
}

std::shared_ptr<Executable> PartCache::make(const Sought& sought, Family& family, const CompileOptions& options,
                                            CompileStats& stats) {
  if (options.dump_folder.empty())
    if (auto executable = resized(sought, family, options, stats)) return executable;
  CompileOptions own = options;
  if (!own.dump_folder.empty()) own.dump_folder += "-part-" + std::to_string(sought.part);
  std::shared_ptr<Executable> executable;
  if (const auto it = new_.find(sought.part); it != new_.end()) executable = it->second;
  if (!executable) executable = compile_part(sought, own);
  stats += executable->stats();
  ++stats.new_parts;
  return executable;
}

// Where this cannot be done, whoever needs a part is told in its turn.
PartCache::Made PartCache::make_new(const ir::Listing& listing, const ir::Parts& parts,
                                    const std::vector<bool>& is_made, const CompileOptions& options,
                                    LineText line_text) {
  std::vector<Sought> wanted;
  std::unordered_set<uint64_t> codes;
  for (size_t p = 0; p < parts.size(); ++p) {
    if (is_made[p]) continue;
    const uint64_t code = hash_of(0, parts.code_of(p));
    const Sought sought{listing,  parts, p, ir::for_lookup(hash_of(code, parts.numbers_of(p))), ir::for_lookup(code),
                        line_text};
    if (!knows_code(sought) && codes.insert(code).second) wanted.push_back(sought);
  }
  if (wanted.size() < 2 || options.other_sizes == OtherSizes::Always) return {};
  std::vector<std::shared_ptr<Executable>> executables(wanted.size());
  const int threads = lowering::crew_size();
  lowering::share_out_in_crew(static_cast<int64_t>(wanted.size()), [&](int64_t begin, int64_t end, int) {
    const lowering::Threads all(threads);
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) try {
        executables[i] = compile_part(wanted[i], options);
      } catch (const std::exception&) {}
  });
  Made made;
  for (size_t i = 0; i < wanted.size(); ++i) made[wanted[i].part] = std::move(executables[i]);
  return made;
}

bool PartCache::knows_code(const Sought& sought) const {
  const auto [begin, end] = families_.equal_range(sought.code_hash);
  return std::any_of(begin, end, [&](const auto& entry) {
    const auto family = entry.second.lock();
    return family && std::ranges::equal(family->code, sought.code());
  });
}

std::shared_ptr<Executable> PartCache::compile_part(const Sought& sought, const CompileOptions& options) {
  return jit::compile(ir::graph_of(sought.listing, sought.parts, sought.part, sought.line_text, sought.numbers()),
                      options);
}

std::shared_ptr<Executable> PartCache::resized(const Sought& sought, Family& family, const CompileOptions& options,
                                               CompileStats& stats) {
  if (options.other_sizes == OtherSizes::Never || (options.device && options.device != &cpu_device())) return nullptr;
  for (auto it = family.generic.begin(); it != family.generic.end(); ++it)
    if (std::shared_ptr<Executable> executable = it->executable(sought.numbers(), options)) {
      family.generic.splice(family.generic.begin(), family.generic, it);
      stats += executable->stats();
      ++stats.resized_parts;
      return executable;
    }
  const bool first = family.seen.empty(), always = options.other_sizes == OtherSizes::Always;
  family.seen.see(sought.numbers());
  if (always) family.seen.expect_others();
  if ((first && !always) || family.made >= kMostGeneric) return nullptr;
  ++family.made;
  try {
    family.generic.emplace_front(sought.listing, sought.parts, sought.part, sought.line_text, family.seen, options);
  } catch (const ir::NotGeneric&) {
    family.made = kMostGeneric;
    return nullptr;
  }
  ++generic_;
  if (family.generic.size() > kKeptGeneric) {
    family.generic.pop_back();
    --generic_;
  }
  stats += family.generic.front().stats();
  ++stats.new_parts;
  std::shared_ptr<Executable> executable = family.generic.front().executable(sought.numbers(), options);
  LAZULI_CHECK(executable, "a plan does not serve the sizes that it was made for");
  stats += executable->stats();
  return executable;
}

void PartCache::use(const CompileOptions& options) {
  if (same_code(options, options_)) return;
  found_.clear();
  known_.clear();
  families_.clear();
  generic_ = 0;
  options_ = options;
}

PartCache::Expectation PartCache::expectation(uint64_t key, size_t n) const {
  if (const auto it = prospects_.find(key_at(key, n)); it != prospects_.end()) return {&it->second.prospect, true};
  const auto it = prospects_.find(ir::for_lookup(key));
  return {it == prospects_.end() ? nullptr : &it->second.prospect, false};
}

std::shared_ptr<Executable> PartCache::executable_for(const ir::Listing& listing, const ir::Parts& parts, size_t part,
                                                      const CompileOptions& options, LineText line_text, uint64_t& hash,
                                                      CompileStats& stats) {
  use(options);
  CompileOptions own = options;
  own.little_effort = true;
  const uint64_t code = hash_of(0, parts.code_of(part));
  hash = hash_of(code, parts.numbers_of(part));
  return find_or_make({listing, parts, part, ir::for_lookup(hash), ir::for_lookup(code), line_text}, own, stats);
}

std::unique_ptr<Executable> PartCache::compile(const ir::Listing& listing, std::span<const ir::ValueId> live,
                                               const std::vector<bool>& donated, const CompileOptions& options,
                                               LineText line_text, PartsAhead* ahead) {
  const ir::Parts parts = ir::cut(listing, live, donated);
  std::vector<PartsAhead::Made> made(parts.size());
  if (ahead && same_code(ahead->options(), options)) made = ahead->take(parts, live);
  use(options);
  if (options.dump_folder.empty()) {
    std::vector<bool> is_made;
    for (const PartsAhead::Made& m : made) is_made.push_back(m.executable != nullptr);
    CompileOptions own = options;
    own.little_effort = true;
    new_ = make_new(listing, parts, is_made, own, line_text);
  }
  const std::unique_ptr<Made, void (*)(Made*)> clear_at_end(&new_, [](Made* m) { m->clear(); });
  Numbers numbers(listing, live);
  SequencePlan plan;
  CompileStats stats;
  std::vector<uint64_t> hashes(parts.size());
  for (size_t p = 0; p < parts.size(); ++p) {
    auto& [executable, own_stats, hash, ran, outputs] = made[p];
    if (!executable) {
      executable = executable_for(listing, parts, p, options, line_text, hash, own_stats);
      learn(listing, parts, p);
    }
    hashes[p] = hash;
    stats += own_stats;
    stats.parts_ahead += ran;
    plan.parts.push_back({std::move(executable), parts.ends[p].inputs, parts.ends[p].scalars, parts.ends[p].outputs,
                          ran, std::move(outputs)});
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
  forget_generic();
  return make_sequence(std::move(plan), stats);
}

void PartCache::learn(const ir::Listing& listing, const ir::Parts& parts, size_t part) {
  if (prospects_.size() >= kMostProspects) prospects_.clear();
  const uint64_t key = ir::key_of_entries(listing, parts.begin(part).entries, parts.ends[part].entries);
  ir::Prospect prospect = ir::prospect_of(listing, parts, part);
  const auto learn_for = [&](uint64_t k, int most_trust) {
    const auto [it, fresh] = prospects_.try_emplace(k, Experience{prospect, 0});
    Experience& known = it->second;
    if (fresh) return;
    if (known.prospect == prospect)
      known.trust = std::min(known.trust + 1, most_trust);
    else if (--known.trust < 0)
      known = {prospect, 0};
  };
  // The last turn of a loop, in which values are needed for the last time, must not stand for all others.
  learn_for(ir::for_lookup(key), 3);
  learn_for(key_at(key, part), 0);
}

void PartCache::forget() {
  while (known_.size() > most_) {
    const auto last = std::prev(known_.end());
    const auto [begin, end] = found_.equal_range(last->hash);
    found_.erase(std::find_if(begin, end, [&](const auto& entry) { return entry.second == last; }));
    const auto [first_family, end_family] = families_.equal_range(last->family->hash);
    const std::weak_ptr<Family> family = last->family;
    const size_t generic = last->family->generic.size();
    known_.erase(last);
    if (!family.expired()) continue;
    generic_ -= generic;
    families_.erase(std::find_if(first_family, end_family, [](const auto& entry) { return entry.second.expired(); }));
  }
}

void PartCache::forget_generic() {
  for (auto known = known_.rbegin(); generic_ > most_ && known != known_.rend(); ++known) {
    generic_ -= known->family->generic.size();
    known->family->generic.clear();
  }
}

void PartCache::find_external_calls(std::unordered_set<int64_t>& calls) const {
  for (const Known& k : known_) calls.insert(k.external_calls.begin(), k.external_calls.end());
}

}  // namespace lazuli::jit
