// A graph's execution, decided: ordered steps, and where every value lives. What remains for the JIT is code for the
// nests; what remains for a run is addresses.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>
#include "ir/graph.h"
#include "lowering/fusion/library_calls.h"
#include "lowering/nest/loops.h"
#include "lowering/plan/memory.h"

namespace lazuli::lowering {

struct PlanOptions {
  bool fusion = true;
  bool groups = true;              // launches of several kernels (joint_launches.h)
  int threads = 1;                 // that a kernel should keep busy
  int64_t accumulate = INT64_MAX;  // bytes that two kernels must share to become one (schedules/accumulate.h)
  bool pack = true;                // parameters of contractions, where libraries read another order than torch's
  bool tiles = true;       // of nests (schedules/tile.h), where the target has no mapping of its own for transposes
  bool row_bounds = true;  // where kernels keep what short rows' stages share (LoopNest::row_bound)
  const Libraries* libraries = &cpu_libraries();
};

// A strided window on a block.
struct BlockView {
  uint32_t block = kNoBlock;
  ir::Size byte_offset = 0;
  ir::Type type;
  ir::Dims strides;  // elements
};

struct PlanStep {
  enum Kind : uint8_t {
    Kernel,
    Library,
    External,  // a recorded external call
    Eager,     // a row that no library serves: the host's kernel for it
  } kind = Kernel;
  uint32_t node = 0;            // for messages: the op and line that it serves
  std::vector<uint32_t> nodes;  // all that a kernel computes, for reading
  bool joined = false;          // a kernel that runs in one launch with the step before it (joint_launches.h)

  // Kernel: `chunks` launches, each over chunk_size (the last one over the rest of chunk_total) of dimension chunk_dim.
  // A partial result moves on by `kept_points` elements from one to the next. See schedules/split.h.
  Loops loops;
  std::vector<uint32_t> blocks;  // per access
  ir::Size chunks = 1, chunk_total = 0, kept_points = 0;
  uint32_t chunk_dim = 0;
  uint32_t partials = kNoBlock;  // of a split reduction's two kernels

  // The others: operands, then those of post-ops, and results; those that are absent or left out have no block. A
  // library's call, made last, may want scratch.
  std::vector<PostOp> post_ops;
  bool may_pack = false;  // operand kPackedOperand may be the same memory in the next run
  std::shared_ptr<LibraryCall> call;
  ir::Size external_call = 0;
  std::vector<uint32_t> numbers;  // External: what it takes after its operands, by their places among the run's numbers
  std::vector<BlockView> operands, results;
  uint32_t scratch = kNoBlock;

  // Library: the call takes operand kPackedOperand, an input of the graph, as packed.pack makes it. Memory for it comes
  // from whoever runs the plan, who may keep it.
  PackedCall packed;
};

// Steps [first, last) of one launch.
struct StepRange {
  uint32_t first, last;
};

struct Plan {
  std::vector<Block> blocks;
  std::vector<PlanStep> steps;
  std::vector<uint32_t> outputs;  // block per graph output
  int64_t arena_bytes = 0;

  // The launch that begins at step `first`.
  StepRange launch(uint32_t first) const {
    uint32_t last = first + 1;
    while (last < steps.size() && steps[last].joined) ++last;
    return {first, last};
  }
};

Plan make_plan(const ir::Graph& graph, const PlanOptions& options);

// In two: a draft has all steps in their order, but no library's call and no place for any block; it may be made of
// sizes that are not known (ir/size.h). To finish it they have to be.
Plan draft_plan(const ir::Graph& graph, const PlanOptions& options);
void finish_plan(const ir::Graph& graph, const PlanOptions& options, Plan& plan);

// When the memory for temporaries (the arena and its segments) is fullest, and with which blocks: the largest first.
struct Fullest {
  uint32_t step = 0;
  int64_t bytes = 0;
  std::vector<uint32_t> blocks;
};
Fullest fullest(const Plan& plan);
// Which value each block holds first; none: nobody knows.
std::vector<ir::Value> first_values(const Plan& plan, const ir::Graph& graph);

// Readable text: groups with their ops and lines, loop nests, steps and places.
std::string print(const ir::Graph& graph, const Plan& plan);

}  // namespace lazuli::lowering
