#include "lowering/libraries/cuda/cublaslt_key.h"

#include "ir/hash.h"

namespace lazuli::lowering {

bool reduces_in_result_type(const CublasLtProblem& p) {
  if (p.type == ir::DType::BF16) return p.settings.bf16_reduced_precision_reduction;
  if (p.type == ir::DType::F16) return p.settings.f16_reduced_precision_reduction;
  return true;
}

CublasLtKey cublaslt_key(const CublasLtProblem& p, const Alignments& alignments, const void* context) {
  CublasLtKey key;
  size_t at = 0;
  const auto add = [&](auto... facts) { ((key.facts.at(at++) = static_cast<uint64_t>(facts)), ...); };
  const BlasProduct& x = p.product;
  add(reinterpret_cast<uintptr_t>(context), p.type, p.out_type, p.settings.tf32 && p.type == ir::DType::F32);
  add(reduces_in_result_type(p), p.settings.workspace_bytes);
  add(p.epilogue.bias, p.epilogue.addend.has_value(), p.epilogue.activation);
  add(x.m, x.n, x.k, x.batches);
  for (const BlasMatrix* m : {&x.a, &x.b, &x.c, &x.d}) add(m->transposed, m->leading, m->batch_step);
  add(alignments.a, alignments.b, alignments.c, alignments.d, alignments.bias);
  return key;
}

size_t CublasLtKeyHash::operator()(const CublasLtKey& key) const {
  uint64_t hash = 0;
  for (uint64_t fact : key.facts) {
    hash = (hash ^ fact) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return ir::for_lookup(hash);
}

}  // namespace lazuli::lowering
