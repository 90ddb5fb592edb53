// Philox4x32-10, one counter per lane; ir/philox.h is the reference.
#include "ir/philox.h"
#include "lowering/targets/primitives.h"

namespace lazuli::lowering {
namespace {

Vec low(Vec x) { return resize(x, 32, false); }
Vec high(Vec x) { return resize(lshr(x, 32), 32, false); }
Vec widening_product(Vec x, uint32_t multiplier) {
  Vec wide = resize(x, 64, false);
  return wide * integer(wide, multiplier);
}

}  // namespace

Vec emit_random(Vec seed, Vec offset, Vec index, ir::DType result) {
  Vec c0 = low(index), c1 = high(index), c2 = low(offset), c3 = high(offset);
  Vec k0 = low(seed), k1 = high(seed);
  for (int round = 0; round < ir::Philox::kRounds; ++round) {
    Vec p0 = widening_product(c0, ir::Philox::kMultiplier0), p1 = widening_product(c2, ir::Philox::kMultiplier1);
    c0 = high(p1) ^ c1 ^ k0;
    c2 = high(p0) ^ c3 ^ k1;
    c1 = low(p1);
    c3 = low(p0);
    k0 = k0 + integer(k0, ir::Philox::kWeyl0);
    k1 = k1 + integer(k1, ir::Philox::kWeyl1);
  }
  llvm::Type* element = seed.ir->element(result);
  if (result == ir::DType::F32) return to_floating(lshr(c0, 8), element) * 0x1p-24;
  Vec word = shl(resize(c1, 64, false), 32) | resize(c0, 64, false);
  return to_floating(lshr(word, 11), element) * 0x1p-53;
}

}  // namespace lazuli::lowering
