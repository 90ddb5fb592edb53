// Facts about a nest that a GPU's launch and its code go by: what differs among the elements that one thread holds, and
// which instructions repeat earlier ones.
#pragma once
#include <vector>
#include "lowering/nest/gpu_variant.h"

namespace lazuli::lowering::gpu {

// A thread holds passes x lanes elements. An instruction has one value for all of them, or one per lane, pass, or both.
struct Varies {
  bool lane = false, pass = false;
  Varies operator|(Varies o) const { return {lane || o.lane, pass || o.pass}; }
};

std::vector<Varies> find_varying(const LoopNest& nest);

// Per instruction, the first element instruction that computes the same: a later stage's copy of it. Stores between the
// two do not matter, since only what is not read again may be overwritten in place.
std::vector<uint16_t> find_repeated(const LoopNest& nest);

// The lanes of this load or store are neighbours in memory.
bool is_dense(const LoopNest& nest, const std::vector<Varies>& varies, const Inst& x);

}  // namespace lazuli::lowering::gpu
