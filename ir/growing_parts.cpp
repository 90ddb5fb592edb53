#include "ir/growing_parts.h"
#include <algorithm>

namespace lazuli::ir {

void GrowingParts::place(bool needed) {
  const std::optional<uint32_t> cut = placer_.next(needed);
  if (!cut) return;
  closed_.push_back({open_, *cut});
  open_ = *cut;
}

std::optional<GrowingParts::Range> GrowingParts::next() {
  if (closed_.empty()) return {};
  const Range range = closed_.front();
  closed_.pop_front();
  return range;
}

const Prospect* GrowingParts::certain(Range range) const {
  static const Prospect gathering{.needed = {true}, .inputs = {}, .outputs = {{0, 0}}};
  const auto entries = listing_.entries.subspan(range.begin, range.end - range.begin);
  const bool is_alone = count_computed(listing_, range.begin, range.end) == 1;  // unless nobody needs what it gathers
  return is_alone && std::ranges::any_of(entries, gathers) ? &gathering : nullptr;
}

bool GrowingParts::write(Range range, const Prospect& prospect) {
  if (count_computed(listing_, range.begin, range.end) != prospect.needed.size()) return false;
  prospect_ = &prospect;
  numbers_ = prospect_numbers(listing_, range.begin, range.end);
  write_part(range.begin, range.end);
  const size_t part = parts_.size() - 1;
  return (parts_.gathers[part] || parts_.inputs_of(part).size() == prospect.inputs.size()) &&
         parts_.outputs_of(part).size() == prospect.outputs.size();
}

bool GrowingParts::is_output(uint32_t entry, uint16_t result) const {
  return std::ranges::find(prospect_->outputs, Prospect::Output{numbers_[entry - first_entry()], result}) !=
         prospect_->outputs.end();
}

Prospect::Input GrowingParts::next_input(ValueId, bool) {
  const size_t i = inputs_so_far();
  return i < prospect_->inputs.size() ? prospect_->inputs[i] : Prospect::Input{};
}

}  // namespace lazuli::ir
