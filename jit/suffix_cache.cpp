#include "jit/suffix_cache.h"
#include <algorithm>
#include <optional>
#include "ir/hash.h"
#include "ir/suffix.h"

namespace lazuli::jit {
namespace {

constexpr size_t kKept = 8;         // wholes, and suffixes
constexpr size_t kFewestNodes = 8;  // of a suffix: fewer cost next to nothing to plan
constexpr size_t kWorthwhile = 4;   // times as many common nodes as a known suffix has make a new one

class TwoParts final : public Executable {
 public:
  // `reused`: how many nodes of the second part.
  TwoParts(size_t input_count, ir::Parts parts, std::unique_ptr<Executable> first, std::shared_ptr<Executable> second, size_t reused)
      : input_count_(input_count), parts_(std::move(parts)), first_(std::move(first)), second_(std::move(second)), stats_(first_->stats()) {
    if (reused == 0) stats_ += second_->stats();
    stats_.reused_nodes = static_cast<int64_t>(reused);
  }

  void run(Host& host, std::span<Buffer> inputs, std::span<const bool> donate, std::span<const int64_t> scalars,
           std::span<Buffer> outputs) override {
    std::vector<Value> values(parts_.values);
    for (size_t i = 0; i < inputs.size(); ++i) {
      values[i] = {std::move(inputs[i]), donate[i], 0};
      values[i].holders = values[i].buffer.owner.use_count();
    }
    const auto first = run_part(host, *first_, parts_.first, scalars, values);
    const auto second = run_part(host, *second_, parts_.second, scalars, values);
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = std::move(values[input_count_ + i].buffer);
    if (!first && !second) return;
    Failures by_value(parts_.values);
    note(by_value, parts_.first, first ? first->outputs : Failures());
    pass_on(by_value, *second_, parts_.second);
    note(by_value, parts_.second, second ? second->outputs : Failures());
    const PartialFailure& earlier = first ? *first : *second;
    throw PartialFailure(earlier.what(), earlier.first, outputs_of(by_value, outputs.size()));
  }

  Failures failures_of(const Failures& inputs) const override {
    Failures by_value(parts_.values);
    std::ranges::copy(inputs, by_value.begin());
    pass_on(by_value, *first_, parts_.first);
    pass_on(by_value, *second_, parts_.second);
    return outputs_of(by_value, parts_.values - input_count_);
  }

  const CompileStats& stats() const override { return stats_; }
  std::string plan_text() const override { return first_->plan_text() + second_->plan_text(); }

 private:
  struct Value {
    Buffer buffer;
    bool donate = true;
    long holders = 1;  // of the buffer, if no other value lies in it: a view of an input may be that input
  };

  // Of values that have none yet.
  static void note(Failures& by_value, const ir::Part& part, const Failures& outputs) {
    for (size_t i = 0; i < outputs.size(); ++i)
      if (auto& known = by_value[part.outputs[i]]; !known) known = outputs[i];
  }
  static void pass_on(Failures& by_value, const Executable& executable, const ir::Part& part) {
    Failures inputs;
    for (uint32_t v : part.inputs) inputs.push_back(by_value[v]);
    note(by_value, part, executable.failures_of(inputs));
  }
  Failures outputs_of(const Failures& by_value, size_t count) const {
    const auto begin = by_value.begin() + static_cast<ptrdiff_t>(input_count_);
    return {begin, begin + static_cast<ptrdiff_t>(count)};
  }

  // Gives what failed of it.
  static std::optional<PartialFailure> run_part(Host& host, Executable& executable, const ir::Part& part,
                                                std::span<const int64_t> scalars, std::vector<Value>& values) {
    const size_t n = part.inputs.size();
    std::vector<Buffer> in(n), out(part.outputs.size());
    for (size_t i = 0; i < n; ++i) {
      Buffer& b = values[part.inputs[i]].buffer;
      in[i] = part.last[i] ? std::move(b) : b;
    }
    const auto donate = std::make_unique<bool[]>(n);
    for (size_t i = 0; i < n; ++i) {
      const Value& v = values[part.inputs[i]];
      donate[i] = part.last[i] && v.donate && in[i].owner.use_count() == v.holders;
    }
    std::vector<int64_t> numbers;
    for (uint32_t s : part.scalars) numbers.push_back(scalars[s]);
    std::optional<PartialFailure> failed;
    try {
      executable.run(host, in, {donate.get(), n}, numbers, out);
    } catch (const PartialFailure& e) {
      failed.emplace(e);
    }
    for (size_t i = 0; i < out.size(); ++i) values[part.outputs[i]].buffer = std::move(out[i]);
    return failed;
  }

  const size_t input_count_;
  const ir::Parts parts_;  // their graphs have gone into the executables
  const std::unique_ptr<Executable> first_;
  const std::shared_ptr<Executable> second_;
  CompileStats stats_;
};

// Whether code made under `a` serves under `b`.
bool same_code(const CompileOptions& a, const CompileOptions& b) {
  return a.device == b.device && a.fusion == b.fusion && a.pack == b.pack && a.interpret_kernels == b.interpret_kernels &&
         a.matmul == b.matmul && a.threads == b.threads && a.disabled_passes == b.disabled_passes;
}

template <class T>
void keep(std::deque<T>& list, T x) {
  list.push_front(std::move(x));
  if (list.size() > kKept) list.pop_back();
}

// A view costs nothing beside what it looks at, and a kernel on the other side of a border.
size_t without_leading_views(const ir::Graph& graph, size_t count) {
  std::vector<ir::Op> ops;  // of the suffix, latest first
  for (size_t n = graph.nodes.size(); ops.size() < count;)
    if (const ir::Op op = graph.nodes[--n].op; !ir::is_leaf(op)) ops.push_back(op);
  while (!ops.empty() && ir::is_view(ops.back())) ops.pop_back();
  return ops.size();
}

}  // namespace

// How many nodes the second part should have; 0 for none.
size_t SuffixCache::suffix_of(const ir::Graph& graph) const {
  size_t longest = 0;
  for (const ir::Graph& whole : wholes_) longest = std::max(longest, ir::common_suffix(graph, whole));
  if (longest < kFewestNodes || longest == ir::applications(graph)) return 0;
  // Rather one that is there already, though more nodes be the same this time.
  size_t known = 0;
  for (const Suffix& s : suffixes_)
    if (s.count > known && s.count * kWorthwhile >= longest && ir::common_suffix(graph, s.graph) == s.count) known = s.count;
  return known ? known : without_leading_views(graph, longest);
}

std::shared_ptr<Executable> SuffixCache::executable_for(size_t count, ir::Graph suffix, const CompileOptions& options, bool& known) {
  const auto same = [&](const Suffix& s) { return ir::same_structure(s.graph, suffix); };
  const auto found = std::ranges::find_if(suffixes_, same);
  known = found != suffixes_.end();
  if (known) return found->executable;
  CompileOptions own = options;
  if (!own.dump_folder.empty()) own.dump_folder += "-end";
  const std::shared_ptr<Executable> made = jit::compile(suffix, own);
  keep(suffixes_, {count, std::move(suffix), made});
  return made;
}

std::unique_ptr<Executable> SuffixCache::compile(ir::Graph graph, const CompileOptions& options) {
  if (!same_code(options, options_)) {
    wholes_.clear();
    suffixes_.clear();
    options_ = options;
  }
  const size_t count = suffix_of(graph);
  if (count == 0) {
    if (ir::applications(graph) >= 2 * kFewestNodes) keep(wholes_, graph);
    return jit::compile(std::move(graph), options);
  }
  ir::Parts parts = ir::split(graph, count);
  bool known = false;
  auto second = executable_for(count, std::move(parts.second.graph), options, known);
  auto first = jit::compile(std::move(parts.first.graph), options);
  return std::make_unique<TwoParts>(graph.input_count, std::move(parts), std::move(first), std::move(second), known ? count : 0);
}

}  // namespace lazuli::jit
