#include "lowering/plan/joint_launches.h"
#include <algorithm>
#include <unordered_map>
#include "ir/hash.h"

namespace lazuli::lowering {
namespace {

constexpr uint32_t kNoKey = UINT32_MAX;
constexpr size_t kMaxMembers = 256;  // of a launch, and steps that are looked at for one
// The share of the peak by which moving steps may raise it, and bytes that are never worth counting.
constexpr int64_t kShare = 128, kSmall = 64 * 1024;

// Whether a is at most b, now and for other sizes. Of what is larger now nothing is noted.
bool surely_at_most(ir::Size a, ir::Size b) { return a.hint() <= b.hint() && always_equal(min(a, b), a); }

class Grouper {
 public:
  explicit Grouper(Plan& plan) : plan_(plan), count_(static_cast<uint32_t>(plan.steps.size())) {}

  void run() {
    find_keys();
    if (mates_.empty()) return;
    find_sources();
    find_lives();
    placed_.assign(count_, false), waits_.assign(count_, false);
    position_.resize(count_);
    for (uint32_t s = 0; s < count_; ++s)
      if (!placed_[s] && !may_wait(s)) place(s);
    for (uint32_t s = 0; s < count_; ++s)
      if (!placed_[s]) place(s);
    apply();
  }

 private:
  // Kernels of one nest have the same key; those without a mate have none.
  void find_keys() {
    key_.assign(count_, kNoKey);
    std::unordered_multimap<uint64_t, uint32_t> seen;  // keys by their nest's hash
    for (uint32_t s = 0; s < count_; ++s) {
      const PlanStep& step = plan_.steps[s];
      if (step.kind != PlanStep::Kernel) continue;
      const uint64_t hash = ir::for_lookup(step.loops.nest.hash());
      auto [it, end] = seen.equal_range(hash);
      while (it != end && plan_.steps[mates_[it->second][0]].loops.nest != step.loops.nest) ++it;
      if (it == end) {
        it = seen.emplace(hash, static_cast<uint32_t>(mates_.size()));
        mates_.emplace_back();
      }
      key_[s] = it->second;
      mates_[it->second].push_back(s);
    }
    bool any = false;
    for (auto& mates : mates_) any |= mates.size() > 1;
    if (!any) mates_.clear();
    for (auto& mates : mates_)
      if (mates.size() == 1) key_[mates[0]] = kNoKey;
  }

  // Bytes [begin, end) of a block, or more, that a step reads or writes.
  struct Touch {
    uint32_t block;
    ir::Size begin, end;
    bool written;
    bool meets(const Touch& o) const { return !surely_at_most(o.end, begin) && !surely_at_most(end, o.begin); }
  };
  struct Past {
    uint32_t step;
    Touch touch;
  };

  template <class F>
  void for_touches(const PlanStep& step, F&& f) const {
    auto whole = [&](uint32_t b, bool written) {
      if (b != kNoBlock) f(Touch{b, 0, plan_.blocks[b].bytes, written});
    };
    for (size_t a = 0; a < step.blocks.size(); ++a) {
      const Access& access = step.loops.nest.accesses[a];
      const BoundAccess& bound = step.loops.accesses[a];
      if (access.indexed || bound.partial || step.chunks > 1) {
        whole(step.blocks[a], access.store);
        continue;
      }
      ir::Size first = bound.offset, last = bound.offset;
      for (size_t d = 0; d < bound.strides.size(); ++d)
        (bound.strides[d] < 0 ? first : last) += bound.strides[d] * (step.loops.sizes[d] - 1);
      const int64_t item = ir::item_size(access.dtype);
      f(Touch{step.blocks[a], first * item, (last + 1) * item, access.store});
    }
    for (const BlockView& v : step.operands) whole(v.block, false);
    for (const BlockView& v : step.results) whole(v.block, true);
  }

  // The steps that each must come after: for what they write, and for what they still read of memory that it writes.
  void find_sources() {
    sources_.resize(count_);
    std::vector<std::vector<Past>> writers(plan_.blocks.size()), readers(plan_.blocks.size());
    for (uint32_t s = 0; s < count_; ++s) {
      std::vector<uint32_t>& mine = sources_[s];
      auto wait_for = [&](const Touch& t, const std::vector<Past>& past) {
        for (const Past& p : past)
          if (p.touch.meets(t)) mine.push_back(p.step);
      };
      for_touches(plan_.steps[s], [&](const Touch& t) {
        wait_for(t, writers[t.block]);
        if (t.written) wait_for(t, readers[t.block]);
      });
      for_touches(plan_.steps[s], [&](const Touch& t) {
        const bool all = t.written && always_equal(t.begin, 0) && always_equal(t.end, plan_.blocks[t.block].bytes);
        if (all) writers[t.block].clear(), readers[t.block].clear();  // who comes later waits for this step
        (t.written ? writers : readers)[t.block].push_back({s, t});
      });
      std::sort(mine.begin(), mine.end());
      mine.erase(std::unique(mine.begin(), mine.end()), mine.end());
      std::erase(mine, s);
    }
  }

  // How many bytes are alive at each step in the given order, how many each brings to life, and how many temporary ones
  // it holds.
  void find_lives() {
    born_.assign(count_, 0), held_.assign(count_, 0), alive_.assign(count_, 0);
    std::vector<int64_t> dying(count_, 0);
    std::vector<uint32_t> first(plan_.blocks.size(), UINT32_MAX), last(plan_.blocks.size(), 0);
    for (uint32_t s = 0; s < count_; ++s)
      for_touches(plan_.steps[s], [&](const Touch& t) {
        const Block::Kind kind = plan_.blocks[t.block].kind;
        if (kind == Block::Arena || kind == Block::External) held_[s] += plan_.blocks[t.block].bytes.hint();
        first[t.block] = std::min(first[t.block], s);
        last[t.block] = s;
      });
    for (uint32_t b = 0; b < plan_.blocks.size(); ++b) {
      const Block& block = plan_.blocks[b];
      if (first[b] == UINT32_MAX || block.kind == Block::Input) continue;
      born_[first[b]] += block.bytes.hint();
      if (block.kind != Block::Output) dying[last[b]] += block.bytes.hint();
    }
    int64_t now = 0;
    for (uint32_t s = 0; s < count_; ++s) {
      now += born_[s];
      alive_[s] = now;
      peak_ = std::max(peak_, now);
      now -= dying[s];
    }
    allowed_ = peak_ + peak_ / kShare + kSmall;
    waiting_allowed_ = peak_ / kShare + kSmall;
  }

  // Until a step needs what it makes; meanwhile what it reads stays.
  bool may_wait(uint32_t s) {
    if (key_[s] == kNoKey || mates_[key_[s]].back() == s || waiting_bytes_ + held_[s] > waiting_allowed_) return false;
    for (uint32_t p : sources_[s])
      if (!placed_[p]) return false;  // a chain cannot be one launch
    waiting_bytes_ += held_[s];
    waits_[s] = true;
    return true;
  }

  void place(uint32_t s) {
    for (uint32_t p : sources_[s])
      if (!placed_[p]) place(p);
    const size_t begin = order_.size();
    put(s);
    if (key_[s] == kNoKey) return;
    const size_t first = order_.size();
    std::vector<uint32_t>& mates = mates_[key_[s]];
    for (size_t i = 0; i < std::min(mates.size(), kMaxMembers); ++i) {
      const uint32_t t = mates[i];
      if (!placed_[t] && is_ready(t, begin) && moves_up(t, s)) put(t);
    }
    std::erase_if(mates, [&](uint32_t t) { return placed_[t]; });
    for (size_t i = first; i < order_.size(); ++i) joined_[i] = true;
  }

  void put(uint32_t s) {
    placed_[s] = true;
    if (waits_[s]) waiting_bytes_ -= held_[s];
    position_[s] = order_.size();
    order_.push_back(s);
    joined_.push_back(false);
  }

  // Whether all that t waits for stands before the group that begins at `begin`.
  bool is_ready(uint32_t t, size_t begin) const {
    return std::all_of(sources_[t].begin(), sources_[t].end(),
                       [&](uint32_t p) { return placed_[p] && position_[p] < begin; });
  }

  bool moves_up(uint32_t t, uint32_t to) {
    if (t <= to || born_[t] == 0) return true;
    const auto from = alive_.begin() + to, until = alive_.begin() + t;
    if (*std::max_element(from, until) + born_[t] > allowed_) return false;
    std::for_each(from, until, [&](int64_t& bytes) { bytes += born_[t]; });
    return true;
  }

  void apply() {
    std::vector<PlanStep> steps;
    steps.reserve(count_);
    for (size_t i = 0; i < count_; ++i) {
      steps.push_back(std::move(plan_.steps[order_[i]]));
      steps.back().joined = joined_[i];
    }
    plan_.steps = std::move(steps);
  }

  Plan& plan_;
  const uint32_t count_;
  std::vector<uint32_t> key_;                 // by step
  std::vector<std::vector<uint32_t>> mates_;  // steps, by key
  std::vector<std::vector<uint32_t>> sources_;
  std::vector<int64_t> born_, held_, alive_;  // bytes, by step in the given order
  int64_t peak_ = 0, allowed_ = 0, waiting_bytes_ = 0, waiting_allowed_ = 0;
  std::vector<bool> placed_, waits_, joined_;
  std::vector<uint32_t> order_;
  std::vector<size_t> position_;  // in order_
};

}  // namespace

void group_steps(Plan& plan) { Grouper(plan).run(); }

}  // namespace lazuli::lowering
