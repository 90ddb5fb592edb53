// Counts of references to the objects that recording one op makes.
#pragma once
#include <atomic>
#include <cstdint>

namespace lazuli::lazy {

// True when it was the last. Nobody makes another of the only one while its holder gives it up, so that then nothing
// need be written, which as an atomic operation costs more than asking.
inline bool give_up_reference(std::atomic<uint32_t>& references) {
  return references.load(std::memory_order_acquire) == 1 || references.fetch_sub(1, std::memory_order_acq_rel) == 1;
}

}  // namespace lazuli::lazy
