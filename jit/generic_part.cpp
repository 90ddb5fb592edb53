#include "jit/generic_part.h"
#include <algorithm>
#include <map>
#include <set>
#include "jit/compile.h"
#include "lowering/generic_plan.h"

namespace lazuli::jit {

void SeenNumbers::see(std::span<const int64_t> numbers) {
  if (times_++ == 0) {
    first_.assign(numbers.begin(), numbers.end());
    group_.resize(numbers.size());
    varies_.resize(numbers.size());
  }
  std::map<std::pair<uint32_t, int64_t>, uint32_t> groups;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] != first_[i]) varies_[i] = true;
    group_[i] = groups.try_emplace({group_[i], numbers[i]}, static_cast<uint32_t>(groups.size())).first->second;
  }
}

bool SeenNumbers::only(std::span<const int64_t> numbers) const {
  return std::ranges::equal(numbers, first_) && std::ranges::find(varies_, true) == varies_.end();
}

std::vector<uint32_t> SeenNumbers::symbols() const {
  std::map<uint32_t, uint32_t> symbol_of;
  std::vector<uint32_t> symbols;
  for (size_t i = 0; i < group_.size(); ++i)
    symbols.push_back(varies_[i]
                          ? symbol_of.try_emplace(group_[i], static_cast<uint32_t>(symbol_of.size())).first->second
                          : kConstant);
  return symbols;
}

GenericPart::GenericPart(const ir::Listing& listing, const ir::Parts& parts, size_t part,
                         std::string (*line_text)(uint32_t), const SeenNumbers& seen, const CompileOptions& options)
    : symbols_(seen.symbols()) {
  const std::span own = parts.numbers_of(part);
  numbers_.assign(own.begin(), own.end());
  ir::Dims sizes{ir::SizeSpan(own)};
  // What looks like a size with an expression would be taken for one.
  for (const std::span<const int64_t> words : {own, parts.code_of(part)})
    if (std::ranges::any_of(ir::SizeSpan(words), &ir::Size::is_symbolic)) throw ir::NotGeneric("an odd number");
  for (uint32_t next = 0, i = 0; i < own.size(); ++i) {
    if (symbols_[i] == SeenNumbers::kConstant) continue;
    if (symbols_[i] == next) table_.symbol(own[i]), ++next;
    sizes[i] = ir::Size::of_expression(symbols_[i]);
  }
  const ir::SizeTable::Making making(table_);
  graph_ = ir::graph_of(listing, parts, part, line_text, sizes);
  Dump dump(options);
  draft_ = draft(graph_, options, dump, stats_);
}

std::optional<std::vector<int64_t>> GenericPart::symbols_of(std::span<const int64_t> numbers) const {
  std::vector<int64_t> symbols;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (symbols_[i] == symbols.size()) symbols.push_back(numbers[i]);
    if (numbers[i] != (symbols_[i] == SeenNumbers::kConstant ? numbers_[i] : symbols[symbols_[i]])) return {};
  }
  return symbols;
}

std::string GenericPart::why_not(std::span<const int64_t> numbers) const {
  if (const auto symbols = symbols_of(numbers)) {
    const std::string condition = table_.why_not(*symbols);
    std::set<size_t> named;  // in the condition, as s0
    for (size_t at = 0; (at = condition.find('s', at)) != condition.npos; ++at) named.insert(std::stoul(condition.substr(at + 1)));
    std::string values;
    for (size_t s : named) values += (values.empty() ? ", not s" : ", s") + std::to_string(s) + " = " + std::to_string((*symbols)[s]);
    return condition + values;
  }
  for (size_t i = 0; i < numbers.size(); ++i)
    if (symbols_[i] == SeenNumbers::kConstant && numbers[i] != numbers_[i])
      return std::to_string(numbers_[i]) + ", not " + std::to_string(numbers[i]);
  return "sizes to be equal that are not";
}

std::unique_ptr<Executable> GenericPart::executable(std::span<const int64_t> numbers,
                                                    const CompileOptions& options) const {
  const auto symbols = symbols_of(numbers);
  std::vector<int64_t> values;
  if (!symbols || !table_.evaluate(*symbols, values)) return nullptr;
  Dump dump(options);
  return finish(lowering::with_numbers(graph_, values), lowering::with_numbers(draft_, values), options, dump, {});
}

}  // namespace lazuli::jit
