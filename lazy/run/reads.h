// How often the host has asked for a value. Who records a piece of a program to record it again asks whether the
// program looked at numbers meanwhile.
#pragma once
#include <atomic>
#include <cstdint>

namespace lazuli::lazy {

inline std::atomic<uint64_t> reads{0};

}  // namespace lazuli::lazy
