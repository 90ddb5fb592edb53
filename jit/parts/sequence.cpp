#include "jit/parts/sequence.h"
#include <mutex>
#include "ir/error.h"
#include "jit/parts/part_inputs.h"

namespace lazuli::jit {
namespace {

class Sequence final : public Executable {
 public:
  Sequence(SequencePlan plan, const CompileStats& stats)
      : plan_(std::move(plan)), stats_(stats), values_(plan_.value_count) {}

  void run(Host& host, std::span<Buffer> inputs, std::span<const bool> donate, std::span<const int64_t> scalars,
           std::span<Buffer> outputs) override {
    std::lock_guard lock(mutex_);
    struct LetGo {
      std::vector<PartValue>& values;
      ~LetGo() {
        for (PartValue& v : values) v = {};
      }
    } let_go_at_end{values_};
    for (size_t i = 0; i < inputs.size(); ++i) {
      values_[i] = {std::move(inputs[i]), donate[i], 0};
      values_[i].holders = values_[i].buffer.owner.use_count();
    }
    std::vector<std::pair<size_t, PartialFailure>> failed;
    for (size_t p = 0; p < plan_.parts.size(); ++p) {
      try {
        if (plan_.parts[p].ran)
          take_over(p);
        else
          run_part(host, p, scalars);
      } catch (const PartialFailure& e) {
        failed.emplace_back(p, e);
      }
      take_outputs(p);
    }
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = std::move(values_[plan_.input_count + i].buffer);
    if (failed.empty()) return;
    const PartialFailure& earliest = failed[0].second;
    throw PartialFailure(earliest.what(), earliest.first, spread(Failures(plan_.value_count), failed));
  }

  Failures failures_of(const Failures& inputs) const override {
    Failures by_value(plan_.value_count);
    std::ranges::copy(inputs, by_value.begin());
    return spread(std::move(by_value), {});
  }

  const CompileStats& stats() const override { return stats_; }
  std::string plan_text() const override {
    std::string text;
    for (size_t p = 0; p < plan_.parts.size(); ++p)
      text += "part " + std::to_string(p) + "\n" + plan_.parts[p].executable->plan_text();
    return text;
  }

 private:
  struct Range {
    uint32_t begin, end;
  };
  template <class F>
  Range range(size_t p, F end_of) const {
    return {p ? end_of(plan_.parts[p - 1]) : 0, end_of(plan_.parts[p])};
  }
  Range inputs_of(size_t p) const {
    return range(p, [](const auto& part) { return part.inputs; });
  }
  Range scalars_of(size_t p) const {
    return range(p, [](const auto& part) { return part.scalars; });
  }
  Range outputs_of(size_t p) const {
    return range(p, [](const auto& part) { return part.outputs; });
  }

  void run_part(Host& host, size_t p, std::span<const int64_t> scalars) {
    const Range in = inputs_of(p), numbers = scalars_of(p), out = outputs_of(p);
    const size_t n = in.end - in.begin;
    part_inputs_.resize(n);
    if (donate_capacity_ < n) donate_ = std::make_unique<bool[]>(donate_capacity_ = 2 * n);
    const std::span<const SequencePlan::Input> parts_inputs(plan_.inputs.data() + in.begin, n);
    const auto value_of = [&](const SequencePlan::Input& x) -> PartValue& { return values_[x.value]; };
    const auto is_last = [](const SequencePlan::Input& x) { return x.last; };
    take_inputs(parts_inputs, value_of, is_last, part_inputs_, {donate_.get(), n});
    part_scalars_.clear();
    for (uint32_t s = numbers.begin; s < numbers.end; ++s) part_scalars_.push_back(scalars[plan_.scalars[s]]);
    part_outputs_.resize(out.end - out.begin);
    plan_.parts[p].executable->run(host, part_inputs_, {donate_.get(), n}, part_scalars_, part_outputs_);
  }

  void take_over(size_t p) {
    const Range in = inputs_of(p);
    for (uint32_t i = in.begin; i < in.end; ++i)
      if (plan_.inputs[i].last) values_[plan_.inputs[i].value].buffer = {};
    part_outputs_ = std::move(plan_.parts[p].made);
    const Range out = outputs_of(p);
    LAZULI_CHECK(part_outputs_.size() == out.end - out.begin, "what ran ahead of a sequence is good for one run of it");
  }

  void take_outputs(size_t p) {
    const Range out = outputs_of(p);
    for (uint32_t i = out.begin; i < out.end; ++i) {
      PartValue& v = values_[plan_.outputs[i]];
      v.buffer = std::move(part_outputs_[i - out.begin]);
      v.donate = true;
      v.holders = 1;
    }
    part_inputs_.clear();
    part_outputs_.clear();
  }

  // What becomes of the outputs, given what failed of the inputs and which parts failed by themselves.
  Failures spread(Failures by_value, std::span<const std::pair<size_t, PartialFailure>> failed) const {
    const auto note = [&](size_t p, const Failures& outputs) {
      const Range out = outputs_of(p);
      for (uint32_t i = out.begin; i < out.end; ++i)
        if (auto& known = by_value[plan_.outputs[i]]; !known) known = outputs[i - out.begin];
    };
    auto own = failed.begin();
    for (size_t p = 0; p < plan_.parts.size(); ++p) {
      const Range in = inputs_of(p);
      Failures inputs;
      for (uint32_t i = in.begin; i < in.end; ++i) inputs.push_back(by_value[plan_.inputs[i].value]);
      note(p, plan_.parts[p].executable->failures_of(inputs));
      if (own != failed.end() && own->first == p) note(p, (own++)->second.outputs);
    }
    const auto begin = by_value.begin() + static_cast<ptrdiff_t>(plan_.input_count);
    return {begin, begin + static_cast<ptrdiff_t>(plan_.output_count)};
  }

  SequencePlan plan_;
  const CompileStats stats_;
  std::mutex mutex_;
  // Of a run.
  std::vector<PartValue> values_;
  std::vector<Buffer> part_inputs_, part_outputs_;
  std::vector<int64_t> part_scalars_;
  std::unique_ptr<bool[]> donate_;
  size_t donate_capacity_ = 0;
};

}  // namespace

std::unique_ptr<Executable> make_sequence(SequencePlan plan, const CompileStats& stats) {
  return std::make_unique<Sequence>(std::move(plan), stats);
}

}  // namespace lazuli::jit
