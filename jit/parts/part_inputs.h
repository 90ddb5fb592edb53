// What a part of a listing (ir/parts.h) is given: values that earlier parts made, or somebody outside.
#pragma once
#include <span>
#include "jit/run/executable.h"

namespace lazuli::jit {

struct PartValue {
  Buffer buffer;
  bool donate = true;  // it may be written over after its last use
  long holders = 1;    // of the buffer, if no other value lies in it: a view of an input may be that input
};

// Fills `memory` and `donate` for the inputs, which have a value, an offset and bytes as ir::Parts::Input has. Values
// for which is_last(input) holds go with them.
template <class Input, class ValueOf, class IsLast>
void take_inputs(std::span<const Input> inputs, ValueOf value_of, IsLast is_last, std::span<Buffer> memory,
                 std::span<bool> donate) {
  // Pieces first: who takes the whole takes it away.
  for (size_t i = 0; i < inputs.size(); ++i)
    if (const Input& x = inputs[i]; x.offset >= 0) {
      const Buffer& whole = value_of(x).buffer;
      memory[i] = {static_cast<char*>(whole.data) + x.offset, static_cast<size_t>(x.bytes), whole.owner};
      donate[i] = false;
    }
  for (size_t i = 0; i < inputs.size(); ++i)
    if (const Input& x = inputs[i]; x.offset < 0) {
      PartValue& v = value_of(x);
      memory[i] = is_last(x) ? std::move(v.buffer) : v.buffer;
      donate[i] = is_last(x) && v.donate && memory[i].owner.use_count() == v.holders;
    }
  for (const Input& x : inputs)
    if (is_last(x)) value_of(x).buffer = {};
}

}  // namespace lazuli::jit
