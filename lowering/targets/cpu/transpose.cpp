#include "lowering/targets/cpu/transpose.h"

namespace lazuli::lowering::cpu {
namespace {

using llvm::Value;
using Vectors = llvm::SmallVector<Value*, 16>;

// Each shuffle here is one instruction: x86 mixes two registers within their 128-bit parts, or moves whole parts.
constexpr unsigned kPartBits = 128;

struct Shape {
  unsigned lanes, part;  // elements of a vector, and of one of its parts
};

// Of each part of a and b, the first (or second) halves, `width` elements of a and of b by turns.
Value* unpack(llvm::IRBuilder<>& b, Shape s, Value* x, Value* y, unsigned width, bool upper) {
  llvm::SmallVector<int, 64> mask;
  for (unsigned part = 0; part < s.lanes; part += s.part)
    for (unsigned k = 0; k < s.part / 2; k += width)
      for (unsigned from : {0u, s.lanes})
        for (unsigned i = 0; i < width; ++i)
          mask.push_back(static_cast<int>(from + part + (upper ? s.part / 2 : 0) + k + i));
  return b.CreateShuffleVector(x, y, mask);
}

// The even (or odd) parts of x, then those of y.
Value* every_other_part(llvm::IRBuilder<>& b, Shape s, Value* x, Value* y, bool odd) {
  llvm::SmallVector<int, 64> mask;
  for (unsigned from : {0u, s.lanes})
    for (unsigned part = odd ? s.part : 0; part < s.lanes; part += 2 * s.part)
      for (unsigned i = 0; i < s.part; ++i) mask.push_back(static_cast<int>(from + part + i));
  return b.CreateShuffleVector(x, y, mask);
}

template <class Mix>
std::pair<Vectors, Vectors> pairs(const Vectors& v, const Mix& mix) {
  std::pair<Vectors, Vectors> out;
  for (size_t i = 0; i < v.size(); i += 2) {
    out.first.push_back(mix(v[i], v[i + 1], false));
    out.second.push_back(mix(v[i], v[i + 1], true));
  }
  return out;
}

// Rows of as many vectors as a part has elements: within each part, element j of all rows becomes vector j.
Vectors transpose_parts(llvm::IRBuilder<>& b, Shape s, const Vectors& rows, unsigned width) {
  if (rows.size() == 1) return rows;
  auto [low, high] = pairs(rows, [&](Value* x, Value* y, bool up) { return unpack(b, s, x, y, width, up); });
  Vectors out = transpose_parts(b, s, low, 2 * width);
  out.append(transpose_parts(b, s, high, 2 * width));
  return out;
}

// Part p of all vectors becomes vector p.
Vectors gather_parts(llvm::IRBuilder<>& b, Shape s, const Vectors& v) {
  if (v.size() == 1) return v;
  auto [even, odd] = pairs(v, [&](Value* x, Value* y, bool o) { return every_other_part(b, s, x, y, o); });
  const Vectors evens = gather_parts(b, s, even), odds = gather_parts(b, s, odd);
  Vectors out;
  for (size_t i = 0; i < evens.size(); ++i) out.append({evens[i], odds[i]});
  return out;
}

}  // namespace

Vectors transpose(llvm::IRBuilder<>& b, llvm::ArrayRef<Value*> rows) {
  auto* type = llvm::cast<llvm::FixedVectorType>(rows[0]->getType());
  const unsigned n = type->getNumElements();
  const Shape s{n, std::min(n, kPartBits / type->getScalarSizeInBits())};
  // Group g of s.part rows: vector j of it holds, in part p, column p * s.part + j of these rows.
  std::vector<Vectors> groups;
  for (unsigned g = 0; g < n; g += s.part)
    groups.push_back(transpose_parts(b, s, Vectors(rows.begin() + g, rows.begin() + g + s.part), 1));
  Vectors out(n);
  for (unsigned j = 0; j < s.part; ++j) {
    Vectors column;
    for (const Vectors& group : groups) column.push_back(group[j]);
    const Vectors parts = gather_parts(b, s, column);
    for (unsigned p = 0; p < parts.size(); ++p) out[p * s.part + j] = parts[p];
  }
  return out;
}

}  // namespace lazuli::lowering::cpu
