// Executables that run one after the other and hand values over: a listing in parts (ir/parts.h).
#pragma once
#include <memory>
#include <vector>
#include "jit/run/executable.h"

namespace lazuli::jit {

// Values have numbers: the sequence's inputs, then its outputs, then what only passes from one part to another.
struct SequencePlan {
  struct Part {
    std::shared_ptr<Executable> executable;
    uint32_t inputs, scalars, outputs;  // where its lists end; they lie behind those of the part before
    bool ran = false;                   // it has run already, and gave
    std::vector<Buffer> made;           // these, as far as somebody still needs them
  };
  struct Input {
    uint32_t value;
    bool last;       // nobody needs it after this part
    int64_t offset;  // of the piece of it that the part reads, in bytes; -1: all of it
    int64_t bytes;   // of the piece
  };
  size_t input_count = 0, output_count = 0, value_count = 0;
  std::vector<Part> parts;
  std::vector<Input> inputs;
  std::vector<uint32_t> scalars, outputs;
};

// With parts that ran already it is good for one run.
std::unique_ptr<Executable> make_sequence(SequencePlan plan, const CompileStats& stats);

}  // namespace lazuli::jit
