#include "jit/parts/parts_ahead.h"
#include <algorithm>
#include "lowering/threads/blas_threads.h"
#include "lowering/threads/crew.h"

namespace lazuli::jit {
namespace {

using ir::Parts;
using ir::ValueId;

template <class T, class U>
void append_to(std::vector<T>& list, const U& more) {
  list.insert(list.end(), more.begin(), more.end());
}

// Memory that somebody else keeps. Nobody owns it here.
Buffer lent(const Buffer& b) { return {b.data, b.bytes, std::shared_ptr<void>(std::shared_ptr<void>(), b.data)}; }

bool lies_in(const Buffer& inner, const Buffer& outer) {
  const auto *i = static_cast<const char*>(inner.data), *o = static_cast<const char*>(outer.data);
  return i >= o && i < o + std::max<size_t>(outer.bytes, 1);
}

}  // namespace

PartsAhead::PartsAhead(PartCache& cache, const CompileOptions& options, PartCache::LineText line_text)
    : cache_(cache),
      options_(PartCache::for_parts(options)),
      line_text_(line_text),
      threads_(omp_get_max_threads()),
      growing_(listing_) {}

void PartsAhead::append(const Recorded& recorded) {
  append_to(entries_, recorded.entries);
  append_to(operands_, recorded.operands);
  append_to(attrs_, recorded.attrs);
  append_to(listing_.types, recorded.types);
  append_to(lines_, recorded.lines);
  append_to(seams_, recorded.seams);
  append_to(scalars_, recorded.scalars);
  listing_.entries = entries_, listing_.all_operands = operands_, listing_.all_attrs = attrs_;
  listing_.lines = lines_, listing_.seams = seams_;
  values_.resize(listing_.types.size());
  size_t next = 0;
  for (const ir::Entry& e : recorded.entries)
    if (e.op == ir::Op::input) {
      const Input& x = recorded.inputs[next++];
      values_[e.first_result] = {{lent(x.memory)}, true, inputs_.size()};
      inputs_.push_back({x, e.first_result});
    }
  growing_.grow([&](uint32_t entry) { return cache_.was_needed(listing_, entry); });
}

bool PartsAhead::step(Host& host) {
  const auto range = growing_.next();
  if (!range) return false;
  PartCache::Expectation expected{growing_.certain(*range)};
  if (!expected.prospect) expected = cache_.expectation(ir::key_of_entries(listing_, range->begin, range->end), steps_);
  ++steps_;
  if (!expected.prospect || !growing_.write(*range, *expected.prospect)) return true;
  Planned planned{growing_.parts().size() - 1, *range, expected.same_place, {}, {}};
  try {
    const lowering::Threads all(threads_);
    planned.made.part = cache_.executable_for(listing_, growing_.parts(), planned.part, options_, line_text_);
  } catch (const std::exception&) {
    return true;  // who compiles it in its turn is told
  }
  if (!planned.made.part.executable) return true;
  planned.made.ran = can_run(planned, host) && run(planned, host);
  runs_ += planned.made.ran;
  planned_.push_back(std::move(planned));
  return true;
}

// Whether what the part puts behind what input i shows may lie there. Nobody else may have the memory.
bool PartsAhead::may_append(const Planned& planned, size_t i) const {
  const Parts::Input& x = growing_.parts().inputs_of(planned.part)[i];
  const size_t number = values_[x.value].input;
  if (!x.donated || x.offset != Parts::kWhole || number == kNoInput) return false;
  const Lent& input = inputs_[number];
  return input.is_appended_to && input.latest == x.value && input.owner.use_count() == 1 &&
         planned.made.part.executable->only_scatters_to(i);
}

// What lies outside may be written over only when the recording has ended; before, a run copies it first.
bool PartsAhead::can_run(Planned& planned, const Host& host) const {
  if (!planned.made.part.executable->runs_anywhere(host)) return false;
  constexpr int64_t kMostCopied = 64 << 10;  // bytes
  int64_t copied = 0;
  const auto inputs = growing_.parts().inputs_of(planned.part);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = values_[inputs[i].value];
    if (!value.there) return false;
    if (may_append(planned, i))
      planned.appends.push_back(i);
    else if (inputs[i].donated && value.buffer.owner.use_count() == 0)
      copied += planned.made.part.executable->bytes_written_over(i);
  }
  return copied <= kMostCopied;
}

bool PartsAhead::run(Planned& planned, Host& host) {
  const Parts& parts = growing_.parts();
  const std::span ins = parts.inputs_of(planned.part);
  const std::span outs = parts.outputs_of(planned.part);
  std::vector<Buffer> inputs(ins.size()), outputs(outs.size());
  // What may be needed again would have to be computed again: a loop may take more turns this time. Little is kept.
  constexpr size_t kLittle = 16 << 10;  // bytes of the whole, where a part reads a piece
  std::vector<bool> last;
  for (const Parts::Input& x : ins)
    last.push_back(x.last && planned.expected && !growing_.is_outside(x.value) &&
                   values_[x.value].buffer.bytes > kLittle);
  const auto is_last = [&](const Parts::Input& x) { return last[static_cast<size_t>(&x - ins.data())]; };
  const auto donate = std::make_unique<bool[]>(ins.size());
  std::vector<int64_t> scalars;
  for (uint32_t s : parts.scalars_of(planned.part)) scalars.push_back(scalars_[s]);
  const auto value_of = [&](const Parts::Input& x) -> PartValue& { return values_[x.value]; };
  take_inputs(ins, value_of, is_last, inputs, {donate.get(), ins.size()});
  for (size_t i : planned.appends) donate[i] = inputs_[values_[ins[i].value].input].has_grown = true;
  for (const Parts::Input& x : ins)
    if (is_last(x)) values_[x.value].there = false;
  try {
    const lowering::OneThread one;
    const lowering::BlasThreads blas(1);
    planned.made.part.executable->run(host, inputs, {donate.get(), ins.size()}, scalars, outputs);
  } catch (const std::exception&) {
    return false;  // it will fail in its turn
  }
  for (size_t i = 0; i < outs.size(); ++i) values_[outs[i].value] = {{std::move(outputs[i])}, true, kNoInput};
  for (size_t i : planned.appends) {
    const size_t number = values_[ins[i].value].input;
    const Buffer& memory = inputs_[number].memory;
    for (const Parts::Output& out : outs)
      if (Value& v = values_[out.value]; v.buffer.data == memory.data && v.buffer.bytes == memory.bytes)
        v.input = number, inputs_[number].latest = out.value;
  }
  return true;
}

// Both are made of the same entries, from the same one on: with equal code, what gives the same outputs is the same
// nodes.
bool PartsAhead::is_same(const Planned& planned, const Parts& parts, size_t part) const {
  const Parts& own = growing_.parts();
  const auto same_output = [](const Parts::Output& a, const Parts::Output& b) { return a.value == b.value; };
  return std::ranges::equal(own.code_of(planned.part), parts.code_of(part)) &&
         std::ranges::equal(own.outputs_of(planned.part), parts.outputs_of(part), same_output);
}

std::vector<Buffer> PartsAhead::appended() const {
  std::vector<Buffer> all;
  for (const Lent& x : inputs_)
    if (x.has_grown) all.push_back({x.memory.data, x.memory.bytes, x.owner.lock()});
  return all;
}

// What lies in memory of others is held together with that.
Buffer PartsAhead::owned(Buffer b) const {
  if (b.owner.use_count() > 0) return b;
  const auto whole = std::ranges::find_if(inputs_, [&](const Lent& x) { return lies_in(b, x.memory); });
  if (whole != inputs_.end()) b.owner = whole->owner.lock();
  return b;
}

std::vector<PartsAhead::Made> PartsAhead::take(const Parts& parts, std::span<const ValueId> live) {
  std::vector<Made> made(parts.size());
  auto next = planned_.begin();
  std::vector<bool> is_right(values_.size());  // what is there is what the parts compute, to the bit
  for (size_t p = 0; p < parts.size(); ++p) {
    const uint32_t begin = parts.begin(p).entries;
    while (next != planned_.end() && next->range.begin < begin) ++next;
    if (next == planned_.end() || next->range.begin != begin || !is_same(*next, parts, p)) continue;
    made[p] = std::move(next->made);
    made[p].ran =
        made[p].ran && std::ranges::all_of(growing_.parts().inputs_of(next->part), [&](const Parts::Input& x) {
          return growing_.is_outside(x.value) || is_right[x.value];
        });
    if (!made[p].ran) continue;
    for (const Parts::Output& o : parts.outputs_of(p)) is_right[o.value] = true;
  }
  // A part that is to run needs all of its inputs, of which some may have been let go of: then their parts run again.
  std::vector<bool> wanted(values_.size());
  const auto want = [&](ValueId v) {
    if (v < wanted.size()) wanted[v] = true;
  };
  for (ValueId v : live) want(v);
  for (size_t p = parts.size(); p-- > 0;) {
    const auto outputs = parts.outputs_of(p);
    made[p].ran = made[p].ran && std::ranges::all_of(outputs, [&](const Parts::Output& o) {
                    return !wanted[o.value] || values_[o.value].there;
                  });
    if (made[p].ran)
      for (const Parts::Output& o : outputs) made[p].outputs.push_back(owned(std::move(values_[o.value].buffer)));
    else
      for (const Parts::Input& x : parts.inputs_of(p)) want(x.value);
  }
  values_.clear();
  return made;
}

}  // namespace lazuli::jit
