// What a captured graph recorded, made independent of its place: it can be recorded again in any trace, over other
// inputs. That takes a copy of its entries, and a cell for each value.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>
#include "lazy/trace/trace.h"

namespace lazuli::lazy {

class Block {
 public:
  // One of the values that a block reads, or one of its own, by its number among these.
  struct Ref {
    bool is_input = false;
    uint32_t index = 0;
  };
  // Random numbers that it draws: its two run-time numbers that say where in the sequence, and how many.
  struct Draw {
    size_t seed, offset;
    int64_t count;
  };

  // What the trace has recorded since `begin`, which reads `inputs` of what was there before. None if not everything
  // follows from these: it reads something else from outside, memory that was never written, or random numbers of a
  // generator that is not the default one.
  // `why` says what it was.
  static std::optional<Block> take(const Trace& trace, const Trace::Place& begin, std::span<const ValueId> inputs,
                                   std::string& why);
  // What a value of the trace is to the block that was taken from it so; none: nothing.
  static std::optional<Ref> ref(const Trace::Place& begin, std::span<const ValueId> inputs, ValueId v);

  // Its run-time numbers, of which those of draws are to be made anew.
  const std::vector<int64_t>& numbers() const { return numbers_; }
  const std::vector<Draw>& draws() const { return draws_; }
  std::vector<int64_t> external_calls() const;
  // The Python line of each entry.
  const std::vector<uint32_t>& lines() const { return lines_; }

  // Records it once more. Returns the number of its first own value in the trace.
  ValueId append(Trace& trace, std::span<const ValueId> inputs, std::span<const int64_t> numbers);

 private:
  Trace::Excerpt at(const Trace& trace, std::span<const ValueId> inputs) const;
  const Trace::Excerpt& placed(const Trace& trace, std::span<const ValueId> inputs);

  // As recorded at a place with nothing before it. Operands from before are ~0u - 1 - the input's number.
  Trace::Excerpt code_;
  std::vector<int64_t> numbers_;
  std::vector<Draw> draws_;
  std::vector<uint32_t> lines_;

  // As it was recorded lately: a loop records it at the same places again.
  struct Placed {
    Trace::Excerpt code;
    size_t scalars;
    std::vector<ValueId> inputs;
  };
  static constexpr size_t kPlaces = 4;
  std::vector<Placed> placed_;
  size_t oldest_ = 0;
};

}  // namespace lazuli::lazy
