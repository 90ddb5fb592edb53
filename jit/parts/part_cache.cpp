#include "jit/parts/part_cache.h"
#include <algorithm>
#include <chrono>
#include "ir/error.h"
#include "ir/hash.h"
#include "jit/device.h"
#include "jit/parts/parts_ahead.h"
#include "jit/parts/sequence.h"

namespace lazuli::jit {
namespace {

// Plans for other sizes of one code: how many are kept.
constexpr size_t kKeptGeneric = 16;
// Of one code, how many parts are kept of those that are quickly made of a plan for other sizes.
constexpr size_t kKeptResized = 16;

// In how many listings a part comes before it is planned. The second may be the second step of a program that repeats
// itself from then on, and is planned whole.
constexpr int kUnplannedListings = 2;

constexpr size_t kMostProspects = 1 << 14;

// Whether code made under `a` serves under `b`, for as many threads.
bool same_code(const CompileOptions& a, const CompileOptions& b) {
  return a.device == b.device && a.fusion == b.fusion && a.pack == b.pack && a.other_sizes == b.other_sizes &&
         a.interpret_kernels == b.interpret_kernels && a.matmul == b.matmul && a.disabled_passes == b.disabled_passes &&
         a.unplanned == b.unplanned && a.unplanned_always == b.unplanned_always;
}

uint64_t hash_of(uint64_t h, std::span<const int64_t> words) {
  h = ir::mix(h, words.size());
  for (int64_t word : words) h = ir::mix(h, static_cast<uint64_t>(word));
  return h;
}

uint64_t key_at(uint64_t key, size_t n) { return ir::for_lookup(ir::mix(key, n)); }

using Clock = std::chrono::steady_clock;
HostCost cost(int64_t ops, Clock::time_point since) {
  return {ops, std::chrono::duration<double, std::micro>(Clock::now() - since).count()};
}

// Those that compute something.
int64_t ops_of(const ir::Listing& listing) {
  return std::ranges::count_if(listing.entries, [](const ir::Entry& e) { return !ir::is_leaf(e.op); });
}
int64_t ops_of(const ir::Listing& listing, const ir::Parts& parts, size_t part) {
  return std::ranges::count_if(parts.nodes_of(part), [&](const ir::Parts::Node& node) {
    return node.input == ir::kAbsent && !ir::is_leaf(listing.entries[node.entry].op);
  });
}

std::pair<ir::Parts, HostCost> timed_cut(const ir::Listing& listing, std::span<const ir::ValueId> live,
                                         const std::vector<bool>& donated, const CompileOptions& options) {
  const auto start = Clock::now();
  const Device& device = options.device ? *options.device : cpu_device();
  ir::Parts parts = ir::cut(listing, live, donated, device.alignment());
  return {std::move(parts), cost(ops_of(listing), start)};
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

// How many parts do what an earlier one did with the same parameter: an input of the listing that a product reads.
// Layers of a network have parameters of their own, the turns of a loop share them.
int64_t count_turns(const ir::Listing& listing, const ir::Parts& parts, const std::vector<uint64_t>& hashes) {
  std::vector<const ir::Entry*> maker(listing.types.size());
  for (const ir::Entry& e : listing.entries)
    for (uint16_t r = 0; r < e.results; ++r) maker[e.first_result + r] = &e;
  std::unordered_set<uint64_t> seen;
  int64_t turns = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    std::vector<uint64_t> own;
    for (const ir::Parts::Node& n : parts.nodes_of(p)) {
      const ir::Entry& e = listing.entries[n.entry];
      if (n.input != ir::kAbsent || !ir::is_contraction(e.op)) continue;
      for (ir::ValueId v : listing.operands(e)) {
        if (v == ir::kAbsent) continue;
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

PartCache::Sought::Sought(const ir::Listing& l, const ir::Parts& p, size_t n, LineText text, int t)
    : listing(l),
      parts(p),
      part(n),
      line_text(text),
      threads(t),
      code_hash(hash_of(static_cast<uint64_t>(t), code())),
      hash(hash_of(code_hash, numbers())) {}

ir::Graph PartCache::graph_of(const Sought& s) {
  return ir::graph_of(s.listing, s.parts, s.part, s.line_text, s.parts.numbers_of(s.part));
}

PartCache::Known* PartCache::find(const Sought& sought) {
  const auto [begin, end] = found_.equal_range(ir::for_lookup(sought.hash));
  for (auto it = begin; it != end; ++it)
    if (const Known& k = *it->second; k.family->threads == sought.threads &&
                                      std::ranges::equal(k.numbers, sought.numbers()) &&
                                      std::ranges::equal(k.family->code, sought.code())) {
      known_.splice(known_.begin(), known_, it->second);
      return &*it->second;
    }
  return nullptr;
}

std::shared_ptr<PartCache::Family> PartCache::find_family(const Sought& sought) const {
  const auto [begin, end] = families_.equal_range(ir::for_lookup(sought.code_hash));
  for (auto it = begin; it != end; ++it)
    if (auto family = it->second.lock();
        family && family->threads == sought.threads && std::ranges::equal(family->code, sought.code()))
      return family;
  return nullptr;
}

std::shared_ptr<PartCache::Family> PartCache::family_of(const Sought& sought) {
  if (auto known = find_family(sought)) return known;
  auto family = std::make_shared<Family>();
  family->hash = ir::for_lookup(sought.code_hash);
  family->code.assign(sought.code().begin(), sought.code().end());
  family->threads = sought.threads;
  families_.emplace(family->hash, family);
  return family;
}

// What is dumped is compiled for that.
PartCache::MadePart PartCache::find_or_make(Sought& sought, const CompileOptions& options) {
  MadePart made{nullptr, {}, sought.hash};
  made.stats.parts = 1;
  Known* known = options.dump_folder.empty() ? find(sought) : nullptr;
  const std::shared_ptr<Family> family = known ? known->family : family_of(sought);
  if (known && (!known->unplanned || is_unplanned(sought, family.get(), options))) {
    if (known->unplanned) family->meet(listing_);
    made.stats.unplanned_parts = known->unplanned;
    made.executable = known->executable;
    return made;
  }
  made.executable = make(sought, *family, options, made.stats);
  const bool unplanned = made.stats.unplanned_parts > 0;
  if (known) {
    known->executable = made.executable;
    known->unplanned = unplanned;
    keep_few(made, known_.begin());
    return made;
  }
  std::vector<int64_t> calls;
  for (const ir::Parts::Node& node : sought.parts.nodes_of(sought.part)) {
    const ir::Entry& entry = sought.listing.entries[node.entry];
    if (node.input == ir::kAbsent && entry.op == ir::Op::external) calls.push_back(sought.listing.attrs(entry)[1]);
  }
  const std::span numbers = sought.numbers();
  known_.push_front({ir::for_lookup(sought.hash),
                     {numbers.begin(), numbers.end()},
                     family,
                     std::move(calls),
                     made.executable,
                     unplanned});
  found_.emplace(known_.front().hash, known_.begin());
  keep_few(made, known_.begin());
  return made;
}

void PartCache::keep_few(const MadePart& made, Order::iterator known) {
  if (!made.stats.resized_parts) return;
  auto& resized = known->family->resized;
  resized.push_back(known);
  if (resized.size() > kKeptResized) forget(resized.front());
}

std::shared_ptr<Executable> PartCache::make(Sought& sought, Family& family, const CompileOptions& options,
                                            CompileStats& stats) {
  const auto start = Clock::now();
  const auto cost_since = [&] { return cost(ops_of(sought.listing, sought.parts, sought.part), start); };
  if (is_unplanned(sought, &family, options)) {
    family.meet(listing_);
    if (std::shared_ptr<Executable> executable = options.unplanned(graph_of(sought), options)) {
      family.seen.see(sought.numbers());
      if (!sought.gathers()) ++stats.unplanned_parts;  // it always will
      stats.unplanned += cost_since();
      return executable;
    }
  }
  if (options.dump_folder.empty())
    if (auto executable = resized(sought, family, options, stats)) {
      family.planned = true;
      if (stats.resized_parts) stats.resizing += cost_since(), stats.resizing.us += sought.resizing_us;
      return executable;
    }
  CompileOptions own = options;
  if (!own.dump_folder.empty()) own.dump_folder += "-part-" + std::to_string(sought.part);
  family.planned = true;
  std::shared_ptr<Executable> executable = sought.compiled;
  if (!executable) executable = jit::compile(graph_of(sought), own);
  stats += executable->stats();
  ++stats.new_parts;
  return executable;
}

bool PartCache::is_unplanned(const Sought& sought, const Family* family, const CompileOptions& options) const {
  if (!options.unplanned || !options.dump_folder.empty()) return false;
  if (options.unplanned_always || sought.gathers() || !family) return true;
  if (family->planned) return false;
  return options.planned_soon || family->listings - (family->last == listing_) < kUnplannedListings;
}

std::shared_ptr<Executable> PartCache::of_known_plan(const Sought& sought, Family& family,
                                                     const CompileOptions& options) {
  for (auto it = family.generic.begin(); it != family.generic.end(); ++it) {
    std::shared_ptr<Executable> executable = sought.resized;
    if (executable ? &*it != sought.plan : !(executable = it->executable(sought.numbers(), options))) continue;
    family.generic.splice(family.generic.begin(), family.generic, it);
    return executable;
  }
  return sought.resized;  // the plan itself may have been forgotten since
}

// Of what begins the part, but for what it reads and how.
Refusal PartCache::refusal(const Sought& sought, const GenericPart& plan) {
  Refusal r;
  for (const ir::Parts::Node& node : sought.parts.nodes_of(sought.part)) {
    const ir::Entry& e = sought.listing.entries[node.entry];
    if (node.input != ir::kAbsent || ir::is_leaf(e.op)) continue;
    r = {std::string(ir::name(e.op)), sought.line_text(sought.listing.line(node.entry))};
    if (!ir::is_view(e.op)) break;
  }
  r.what += ": needs " + plan.why_not(sought.numbers());
  return r;
}

bool PartCache::may_resize(const CompileOptions& options) { return options.other_sizes != OtherSizes::Never; }

std::shared_ptr<Executable> PartCache::resized(Sought& sought, Family& family, const CompileOptions& options,
                                               CompileStats& stats) {
  if (!may_resize(options)) return nullptr;
  if (sought.generic.empty())
    if (auto executable = of_known_plan(sought, family, options)) {
      stats += executable->stats();
      ++stats.resized_parts;
      return executable;
    }
  if (!family.generic.empty()) stats.refusals.push_back(refusal(sought, family.generic.front()));
  if (!wants_generic(sought, family, options)) {
    family.seen.see(sought.numbers());
    return nullptr;
  }
  ++family.made;
  try {
    std::list<GenericPart> made = std::move(sought.generic);
    if (made.empty())
      make_generic(made, sought, family.seen, options);
    else
      family.seen.see(sought.numbers());
    family.generic.splice(family.generic.begin(), made);
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
  std::shared_ptr<Executable> executable = std::move(sought.resized);
  if (!executable) executable = family.generic.front().executable(sought.numbers(), options);
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

CompileOptions PartCache::for_parts(CompileOptions options) {
  options.little_effort = true;
  return options;
}

PartCache::MadePart PartCache::executable_for(const ir::Listing& listing, const ir::Parts& parts, size_t part,
                                              const CompileOptions& options, LineText line_text) {
  use(options);
  Sought sought(listing, parts, part, line_text, options.threads);
  // Whether a part gets its first plan is compile()'s to say, or it would hang on how far this thread comes.
  const auto family = find_family(sought);
  if (options.unplanned && !sought.gathers() && (!family || !family->planned)) return {};
  return find_or_make(sought, options);
}

std::unique_ptr<Executable> PartCache::compile(const ir::Listing& listing, std::span<const ir::ValueId> live,
                                               const std::vector<bool>& donated, const CompileOptions& options,
                                               LineText line_text, PartsAhead* ahead) {
  const auto [parts, cutting] = timed_cut(listing, live, donated, options);
  return compile(listing, parts, live, options, line_text, ahead, cutting);
}

std::unique_ptr<Executable> PartCache::compile_if_new(const ir::Listing& listing, std::span<const ir::ValueId> live,
                                                      const std::vector<bool>& donated, const CompileOptions& options,
                                                      LineText line_text) {
  use(options);
  const auto [parts, cutting] = timed_cut(listing, live, donated, options);
  size_t unplanned = 0, counted = 0;  // but for those that never have a plan
  for (size_t p = 0; p < parts.size(); ++p) {
    const Sought sought(listing, parts, p, line_text, options.threads);
    if (sought.gathers() && !options.unplanned_always) continue;
    ++counted;
    unplanned += is_unplanned(sought, find_family(sought).get(), options);
  }
  if (2 * unplanned < counted) return nullptr;
  return compile(listing, parts, live, options, line_text, nullptr, cutting);
}

std::unique_ptr<Executable> PartCache::compile(const ir::Listing& listing, const ir::Parts& parts,
                                               std::span<const ir::ValueId> live, const CompileOptions& options,
                                               LineText line_text, PartsAhead* ahead, const HostCost& cutting) {
  std::vector<PartsAhead::Made> made(parts.size());
  if (ahead && same_code(ahead->options(), options) && ahead->options().threads == options.threads)
    made = ahead->take(parts, live);
  use(options);
  const CompileOptions own = for_parts(options);
  std::vector<Sought> missing;
  for (size_t p = 0; p < parts.size(); ++p)
    if (!made[p].part.executable) missing.emplace_back(listing, parts, p, line_text, own.threads);
  find_or_make_all(missing, own,
                   [&](const Sought& sought, MadePart part) { made[sought.part].part = std::move(part); });
  for (const Sought& sought : missing) learn(listing, parts, sought.part);
  Numbers numbers(listing, live);
  SequencePlan plan;
  CompileStats stats;
  stats.cutting = cutting;
  std::vector<uint64_t> hashes;
  for (size_t p = 0; p < parts.size(); ++p) {
    auto& [part, ran, outputs] = made[p];
    hashes.push_back(part.hash);
    stats += part.stats;
    stats.parts_ahead += ran;
    plan.parts.push_back({std::move(part.executable), parts.ends[p].inputs, parts.ends[p].scalars,
                          parts.ends[p].outputs, ran, std::move(outputs)});
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
  ++listing_;
  return make_sequence(std::move(plan), stats);
}

void PartCache::learn(const ir::Listing& listing, const ir::Parts& parts, size_t part) {
  ir::Prospect prospect = ir::prospect_of(listing, parts, part);
  learn_needed(listing, parts.begin(part).entries, parts.ends[part].entries, prospect);
  if (parts.gathers[part]) return;  // nothing behind it changes what it is
  if (prospects_.size() >= kMostProspects) prospects_.clear();
  const uint64_t key = ir::key_of_entries(listing, parts.begin(part).entries, parts.ends[part].entries);
  const auto learn_for = [&](uint64_t k, int most_trust) {
    const auto [it, fresh] = prospects_.try_emplace(k);
    Experience& known = it->second;
    if (!fresh && known.prospect == prospect)
      known.trust = std::min(known.trust + 1, most_trust);
    else if (fresh || --known.trust < 0)
      known = {prospect, 0};
  };
  // The last turn of a loop, in which values are needed for the last time, must not stand for all others.
  learn_for(ir::for_lookup(key), 3);
  learn_for(key_at(key, part), 0);
}

void PartCache::learn_needed(const ir::Listing& listing, uint32_t begin, uint32_t end, const ir::Prospect& prospect) {
  if (unneeded_.size() >= kMostProspects) unneeded_.clear();
  auto needed = prospect.needed.begin();
  for (uint32_t e = begin; e < end; ++e) {
    if (!ir::is_computed(listing.entries[e].op)) continue;
    if (!*needed++)
      unneeded_.insert(ir::key_of_place(listing, e));
    else if (!unneeded_.empty())
      unneeded_.erase(ir::key_of_place(listing, e));
  }
}

void PartCache::forget() {
  while (known_.size() > most_) forget(std::prev(known_.end()));
}

void PartCache::forget(Order::iterator known) {
  const auto [begin, end] = found_.equal_range(known->hash);
  found_.erase(std::find_if(begin, end, [&](const auto& entry) { return entry.second == known; }));
  std::erase(known->family->resized, known);
  const auto [first_family, end_family] = families_.equal_range(known->family->hash);
  const std::weak_ptr<Family> family = known->family;
  const size_t generic = known->family->generic.size();
  known_.erase(known);
  if (!family.expired()) return;
  generic_ -= generic;
  families_.erase(std::find_if(first_family, end_family, [](const auto& entry) { return entry.second.expired(); }));
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
