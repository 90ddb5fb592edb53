// Parts of a listing that are planned and run while the rest of it is still being recorded.
//
// What only the rest decides (ir::Prospect) is taken to be as it was for such a part before. At the end every part is
// compared: what was made ahead is taken where code, numbers, inputs and outputs are those of the part, which then
// would have been computed from the same values by the same executable. So results never depend on how far this came.
#pragma once
#include <memory>
#include <vector>
#include "ir/growing_parts.h"
#include "jit/parts/part_cache.h"
#include "jit/parts/part_inputs.h"

namespace lazuli::jit {

class PartsAhead {
 public:
  struct Input {
    Buffer memory;              // somebody else's,
    std::weak_ptr<void> owner;  // this one's
    // Whether nobody reads what as_strided_scatter writes to it but who reads the result. Then that may take the
    // input's place though others keep the input, but only the first one: who appends once more writes there, too.
    bool is_appended_to = false;
  };
  // What has been recorded since the last time.
  struct Recorded {
    std::vector<ir::Entry> entries;
    std::vector<ir::ValueId> operands;
    std::vector<int64_t> attrs;
    std::vector<const ir::Type*> types;  // which stay where they are
    std::vector<uint32_t> lines, seams;
    std::vector<int64_t> scalars;
    std::vector<Input> inputs;  // in the order of their positions; they stay as they are
  };
  // `options`: those with which the parts will be compiled, for as many threads as OpenMP would use in the calling
  // thread.
  PartsAhead(PartCache& cache, const CompileOptions& options, PartCache::LineText line_text);
  void append(const Recorded& recorded);
  // Plans the next part and runs it on this thread, if that can be done by now; false if no part is left.
  bool step(Host& host);

  // A part that was made ahead.
  struct Made {
    PartCache::MadePart part;
    bool ran = false;
    std::vector<Buffer> outputs;  // those that somebody still needs, if it ran
  };
  // For each of the listing's parts what was made of it; without an executable: nothing. Gives the outputs away.
  std::vector<Made> take(const ir::Parts& parts, std::span<const ir::ValueId> live);
  const CompileOptions& options() const { return options_; }
  // How many parts ran.
  int64_t runs() const { return runs_; }
  // Inputs to which they have appended.
  std::vector<Buffer> appended() const;

 private:
  struct Planned {
    size_t part;  // of growing_.parts()
    ir::GrowingParts::Range range;
    bool expected;                // a part like this was at this place before
    std::vector<size_t> appends;  // inputs of it whose place results take
    Made made;
  };
  static constexpr size_t kNoInput = SIZE_MAX;
  struct Value : PartValue {
    bool there = false;
    size_t input = kNoInput;  // in whose memory it lies, as large as that
  };
  struct Lent : Input {
    ir::ValueId latest;  // that lies in its memory
    bool has_grown = false;
  };
  bool run(Planned& planned, Host& host);
  bool can_run(Planned& planned, const Host& host) const;
  bool may_append(const Planned& planned, size_t i) const;
  Buffer owned(Buffer b) const;
  bool is_same(const Planned& planned, const ir::Parts& parts, size_t part) const;

  PartCache& cache_;
  const CompileOptions options_;
  const PartCache::LineText line_text_;
  const int threads_;
  std::vector<ir::Entry> entries_;
  std::vector<ir::ValueId> operands_;
  std::vector<int64_t> attrs_;
  std::vector<uint32_t> lines_, seams_;
  std::vector<int64_t> scalars_;
  ir::Listing listing_;  // of these
  ir::GrowingParts growing_;
  std::vector<Value> values_;
  std::vector<Lent> inputs_;
  std::vector<Planned> planned_;
  size_t steps_ = 0;
  int64_t runs_ = 0;
};

}  // namespace lazuli::jit
