#include "lowering/targets/gpu/precision.h"

#include <algorithm>

namespace lazuli::lowering::gpu {
namespace {
using ir::Prim;

// What surely is no negative number: sums of such have no more relative error than their terms.
std::vector<bool> find_nonnegative(const LoopNest& nest) {
  std::vector<bool> known;
  for (const Inst& x : nest.insts) {
    auto arg = [&](int k) { return static_cast<bool>(known[x.args[k]]); };
    auto of = [&]() -> bool {
      if (x.code == Code::Reduce) return x.reduce != Reduce::ArgMax && x.reduce != Reduce::ArgMin && arg(0);
      if (x.code != Code::Prim) return false;
      switch (x.prim) {
        case Prim::literal:
          return x.value >= 0;
        case Prim::exp:
        case Prim::abs:
        case Prim::sqrt:
        case Prim::rsqrt:
        case Prim::erfc:
          return true;
        case Prim::mul:
          return x.args[0] == x.args[1] || (arg(0) && arg(1));
        case Prim::add:
        case Prim::div:
        case Prim::minimum:
          return arg(0) && arg(1);
        case Prim::maximum:
          return arg(0) || arg(1);
        case Prim::select:
          return arg(1) && arg(2);
        case Prim::reciprocal:
        case Prim::round_bf16:
        case Prim::round_bf16_result:
        case Prim::round_f16:
          return arg(0);
        default:
          return false;
      }
    };
    known.push_back(of());
  }
  return known;
}

// How exact instruction `x`, itself `own`, needs its operand `k`.
Precision needed(const LoopNest& nest, const std::vector<bool>& nonnegative, const Inst& x, int k, Precision own) {
  auto positive = [&](int a) { return static_cast<bool>(nonnegative[x.args[a]]); };
  const Precision in_sum = std::max(own, Precision::Near);
  switch (x.code) {
    case Code::Store:
      return k == 0 && ir::is_reduced_floating(nest.accesses[x.slot].dtype) ? Precision::Short : Precision::Full;
    case Code::Reduce:
      if (x.reduce == Reduce::Max || x.reduce == Reduce::Min) return own;
      if (x.reduce != Reduce::Sum) return Precision::Full;
      return positive(0) ? own : in_sum;
    case Code::Accumulate:
      return positive(0) ? own : in_sum;
    case Code::Prim:
      break;
    default:
      return Precision::Full;
  }
  switch (x.prim) {
    case Prim::round_bf16:
    case Prim::round_bf16_result:
    case Prim::round_f16:
      return Precision::Short;
    case Prim::mul:
    case Prim::div:
    case Prim::neg:
    case Prim::abs:
    case Prim::sqrt:
    case Prim::rsqrt:
    case Prim::reciprocal:
    case Prim::minimum:
    case Prim::maximum:
      return own;
    case Prim::select:
      return k == 0 ? Precision::Full : own;
    case Prim::add:
      return positive(0) && positive(1) ? own : in_sum;
    case Prim::sub:
    case Prim::fma:
      return in_sum;
    default:
      return Precision::Full;
  }
}

}  // namespace

std::vector<Precision> find_precision(const LoopNest& nest, const std::vector<uint16_t>& first) {
  const std::vector<bool> nonnegative = find_nonnegative(nest);
  std::vector<Precision> precision(nest.insts.size(), Precision::Short);
  // Whoever reads a result comes after it, and so does whoever shares it.
  for (size_t i = nest.insts.size(); i-- > 0;) {
    const Inst& x = nest.insts[i];
    if (x.dtype != ir::DType::F32) precision[i] = Precision::Full;
    auto raise = [&](uint16_t other, Precision p) { precision[other] = std::max(precision[other], p); };
    if (!first.empty()) raise(first[i], precision[i]);
    for (int k = 0; k < operand_count(nest, x); ++k) raise(x.args[k], needed(nest, nonnegative, x, k, precision[i]));
  }
  return precision;
}

}  // namespace lazuli::lowering::gpu
