// Philox4x32-10, the counter-based random generator (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as
// 1, 2, 3; SC'11). The primitive `random` is its first output words; every target and interpreter gives these numbers.
#pragma once
#include <array>
#include <cstdint>

namespace lazuli::ir {

struct Philox {
  static constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  static constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  static constexpr int kRounds = 10;
};

// The key is the seed; the counter is (index, offset), low words first.
constexpr std::array<uint32_t, 4> philox(uint64_t seed, uint64_t offset, uint64_t index) {
  std::array<uint32_t, 4> c{uint32_t(index), uint32_t(index >> 32), uint32_t(offset), uint32_t(offset >> 32)};
  uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
  for (int round = 0; round < Philox::kRounds; ++round) {
    uint64_t p0 = uint64_t{Philox::kMultiplier0} * c[0], p1 = uint64_t{Philox::kMultiplier1} * c[2];
    c = {uint32_t(p1 >> 32) ^ c[1] ^ k0, uint32_t(p1), uint32_t(p0 >> 32) ^ c[3] ^ k1, uint32_t(p0)};
    k0 += Philox::kWeyl0;
    k1 += Philox::kWeyl1;
  }
  return c;
}

// Uniform in [0, 1): the top 24 bits of word 0, or the top 53 bits of words 1 and 0.
constexpr float philox_f32(uint64_t seed, uint64_t offset, uint64_t index) {
  return static_cast<float>(philox(seed, offset, index)[0] >> 8) * 0x1p-24f;
}
constexpr double philox_f64(uint64_t seed, uint64_t offset, uint64_t index) {
  auto c = philox(seed, offset, index);
  return static_cast<double>((uint64_t{c[1]} << 32 | c[0]) >> 11) * 0x1p-53;
}

}  // namespace lazuli::ir
