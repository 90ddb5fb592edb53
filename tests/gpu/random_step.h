// Random nests (tests/lowering/random_nest.h) as steps of a plan, each access in a block of its own.
#pragma once
#include "lowering/plan/plan.h"
#include "tests/lowering/random_nest.h"

namespace lazuli::testing {

struct RandomStep {
  lowering::PlanStep step;
  std::vector<std::vector<char>> blocks;  // what they hold at first

  RandomStep(uint64_t seed, int64_t vector_size) {
    RandomNest random(seed, RandomNest::kConversionsInRange);
    const lowering::LoopNest& nest = random.nest();
    NestMemory memory = random.memory(vector_size);
    const lowering::KernelArgsLayout at(nest);
    const int64_t* args = memory.args();
    lowering::Loops& loops = step.loops;
    loops.nest = nest;
    loops.sizes.assign(args + at.sizes, nest.rank);
    loops.block = args[0];
    for (size_t a = 0; a < nest.accesses.size(); ++a) {
      lowering::BoundAccess access;
      const auto first = reinterpret_cast<const char*>(args[at.pointers + a]) - memory.data(a);
      const int64_t item = ir::item_size(nest.accesses[a].dtype);
      access.offset = first / item;
      access.strides.assign(args + at.strides + a * nest.rank, nest.rank);
      access.index_stride = args[at.index_strides + a];
      using lowering::VectorStride;
      const VectorStride stride = nest.accesses[a].stride;
      if (stride == VectorStride::Zero || stride == VectorStride::One)
        access.strides[nest.vector_dim()] = stride == VectorStride::One;
      loops.accesses.push_back(access);
      step.blocks.push_back(static_cast<uint32_t>(a));
      blocks.emplace_back(memory.data(a), memory.data(a) + memory.count(a) * item);
    }
    blocks.emplace_back(sizeof(int64_t));  // status
    for (size_t p = 0; p < nest.params; ++p) loops.params.push_back({-1, args[at.params + p]});
  }

  // Which of several writers of one element comes last is up to the GPU.
  bool scatters() const {
    for (const lowering::Access& a : step.loops.nest.accesses)
      if (a.store && a.indexed) return true;
    return false;
  }
};

}  // namespace lazuli::testing
