#include "jit/parts/generic_part.h"
#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include "jit/compile.h"

namespace lazuli::jit {

void SeenNumbers::see(std::span<const int64_t> numbers) {
  if (times_++ == 0) {
    first_.assign(numbers.begin(), numbers.end());
    group_.resize(numbers.size());
    varies_.resize(numbers.size());
    product_.resize(numbers.size());
    std::iota(product_.begin(), product_.end(), 0);  // of none that is looked at yet
  }
  std::map<std::pair<uint32_t, int64_t>, uint32_t> groups;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] != first_[i]) varies_[i] = true;
    group_[i] = groups.try_emplace({group_[i], numbers[i]}, static_cast<uint32_t>(groups.size())).first->second;
  }
  find_products(numbers);
}

// The nearest two neighbours before it, given what is remembered: the first numbers and these. Those that hold no more
// are never looked at again.
void SeenNumbers::find_products(std::span<const int64_t> numbers) {
  const auto is_product = [](std::span<const int64_t> n, size_t i, size_t of) {
    int64_t product;
    return !__builtin_mul_overflow(n[of], n[of + 1], &product) && product == n[i];
  };
  for (size_t i = 0; i < numbers.size(); ++i) {
    uint32_t& of = product_[i];
    if (of == kNone || !varies_[i]) continue;
    if (of + 1 >= i) of = i < 2 ? kNone : static_cast<uint32_t>(i - 2);
    while (of != kNone && !(is_product(numbers, i, of) && is_product(first_, i, of))) --of;  // after 0 comes none
  }
}

bool SeenNumbers::only(std::span<const int64_t> numbers) const {
  return std::ranges::equal(numbers, first_) && std::ranges::find(varies_, true) == varies_.end();
}

std::vector<SeenNumbers::Meaning> SeenNumbers::meanings() const {
  std::map<uint32_t, Meaning> of_group;
  uint32_t symbols = 0;
  std::vector<Meaning> meanings;
  for (size_t i = 0; i < group_.size(); ++i) {
    if (!varies_[i]) {
      meanings.push_back({Meaning::Constant});
      continue;
    }
    const auto [known, fresh] = of_group.try_emplace(group_[i]);
    if (fresh) {
      const uint32_t of = product_[i];
      const bool product = of != kNone && of + 1 < i;
      known->second = product ? Meaning{Meaning::Product, of} : Meaning{Meaning::Symbol, symbols++};
    }
    meanings.push_back(known->second);
  }
  return meanings;
}

// Executables of one draft with numbers of their own. Those that nobody has any more are there for other numbers.
class GenericPart::Instances {
 public:
  Instances(ir::Graph graph, const CompileOptions& options, CompileStats& stats) : draft_{std::move(graph), {}} {
    Dump dump(options);
    draft_.plan = draft(draft_.graph, options, dump, stats);
    idle_.reserve(kMostIdle);
  }
  // One of `all`, which goes back to them when nobody has it any more.
  static std::shared_ptr<Executable> with(const std::shared_ptr<Instances>& all, std::span<const int64_t> values,
                                          const CompileOptions& options) {
    std::shared_ptr<Instance> instance = all->take();
    if (instance) {
      instance->graph->put(values);
      instance->executable.resize(options);
    } else {
      Dump dump(options);
      instance = std::make_shared<Instance>(all->draft_, values, options, dump);
    }
    return {&instance->executable, [all, instance](Executable*) { all->give(instance); }};
  }

 private:
  static constexpr size_t kMostIdle = 16;
  struct Instance {
    Instance(const lowering::PlannedGraph& draft, std::span<const int64_t> values, const CompileOptions& options,
             Dump& dump)
        : graph(std::make_shared<lowering::NumberedGraph>(draft, values)), executable(graph, options, dump, {}) {}
    const std::shared_ptr<lowering::NumberedGraph> graph;
    PlanExecutable executable;
  };

  std::shared_ptr<Instance> take() {
    std::lock_guard lock(mutex_);
    if (idle_.empty()) return nullptr;
    const std::shared_ptr<Instance> taken = std::move(idle_.back());
    idle_.pop_back();
    return taken;
  }
  void give(const std::shared_ptr<Instance>& instance) {
    std::lock_guard lock(mutex_);
    if (idle_.size() < kMostIdle) idle_.push_back(instance);
  }

  lowering::PlannedGraph draft_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Instance>> idle_;
};

GenericPart::GenericPart(const ir::Listing& listing, const ir::Parts& parts, size_t part,
                         std::string (*line_text)(uint32_t), const SeenNumbers& seen, const CompileOptions& options)
    : meanings_(seen.meanings()) {
  const std::span own = parts.numbers_of(part);
  numbers_.assign(own.begin(), own.end());
  ir::Dims sizes{ir::SizeSpan(own)};
  // What looks like a size with an expression would be taken for one.
  for (const std::span<const int64_t> words : {own, parts.code_of(part)})
    if (std::ranges::any_of(ir::SizeSpan(words), &ir::Size::is_symbolic)) throw ir::NotGeneric("an odd number");
  using Meaning = SeenNumbers::Meaning;
  for (uint32_t next = 0, i = 0; i < own.size(); ++i) {
    if (meanings_[i].kind != Meaning::Symbol) continue;
    if (meanings_[i].index == next) table_.symbol(own[i]), ++next;
    sizes[i] = ir::Size::of_expression(meanings_[i].index);
  }
  const ir::SizeTable::Making making(table_);
  for (size_t i = 0; i < own.size(); ++i)
    if (const auto [kind, of] = meanings_[i]; kind == Meaning::Product) sizes[i] = sizes[of] * sizes[of + 1];
  instances_ = std::make_shared<Instances>(ir::graph_of(listing, parts, part, line_text, sizes), options, stats_);
}

std::optional<std::vector<int64_t>> GenericPart::symbols_of(std::span<const int64_t> numbers) const {
  std::vector<int64_t> symbols;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto [kind, index] = meanings_[i];
    switch (kind) {
      case SeenNumbers::Meaning::Constant:
        if (numbers[i] != numbers_[i]) return {};
        break;
      case SeenNumbers::Meaning::Symbol:
        if (index == symbols.size()) symbols.push_back(numbers[i]);
        if (numbers[i] != symbols[index]) return {};
        break;
      case SeenNumbers::Meaning::Product:
        if (int64_t product;
            __builtin_mul_overflow(numbers[index], numbers[index + 1], &product) || numbers[i] != product)
          return {};
        break;
    }
  }
  return symbols;
}

std::string GenericPart::why_not(std::span<const int64_t> numbers) const {
  if (const auto symbols = symbols_of(numbers)) {
    const std::string condition = table_.why_not(*symbols);
    std::set<size_t> named;  // in the condition, as s0
    for (size_t at = 0; (at = condition.find('s', at)) != condition.npos; ++at)
      named.insert(std::stoul(condition.substr(at + 1)));
    std::string values;
    for (size_t s : named)
      values += (values.empty() ? ", not s" : ", s") + std::to_string(s) + " = " + std::to_string((*symbols)[s]);
    return condition + values;
  }
  for (size_t i = 0; i < numbers.size(); ++i)
    if (meanings_[i].kind == SeenNumbers::Meaning::Constant && numbers[i] != numbers_[i])
      return std::to_string(numbers_[i]) + ", not " + std::to_string(numbers[i]);
  return "sizes to be equal that are not";
}

std::shared_ptr<Executable> GenericPart::executable(std::span<const int64_t> numbers,
                                                    const CompileOptions& options) const {
  const auto symbols = symbols_of(numbers);
  std::vector<int64_t> values;
  if (!symbols || !table_.evaluate(*symbols, values)) return nullptr;
  return Instances::with(instances_, values, options);
}

}  // namespace lazuli::jit
