#include "lowering/libraries/product/blas_product.h"
#include <algorithm>
#include <array>

namespace lazuli::lowering {
namespace {

enum Operand : size_t { A, B, C, D };  // the caller's operands, the addend, the result

// One dimension of the product with its step in each operand; 0 where the operand does not have it.
struct Axis {
  ir::Size size = 1;
  std::array<ir::Size, 4> step{};
};

struct Axes {
  std::vector<Axis> batch;
  Axis m, n, k;
};

// Missing operands step by 0, and so does every dimension of one element.
Axes axes_of(const Layout* a, const Layout* b, const Layout* c, const Layout& out) {
  const size_t rank = out.shape.size();
  const auto step = [](const Layout* l, size_t d) { return l && l->shape[d] != 1 ? l->strides[d] : ir::Size(0); };
  Axes x;
  for (size_t d = 0; d + 2 < rank; ++d)
    if (out.shape[d] != 1) x.batch.push_back({out.shape[d], {step(a, d), step(b, d), step(c, d), step(&out, d)}});
  x.m = {out.shape[rank - 2], {step(a, rank - 2), 0, step(c, rank - 2), step(&out, rank - 2)}};
  x.n = {out.shape[rank - 1], {0, step(b, rank - 1), step(c, rank - 1), step(&out, rank - 1)}};
  x.k = {a ? a->shape[rank - 1] : ir::Size(1), {step(a, rank - 1), step(b, rank - 2), 0, 0}};
  return x;
}

// `inner` becomes both where every operand steps evenly over the two.
bool join(const Axis& outer, Axis& inner) {
  for (size_t i = 0; i < outer.step.size(); ++i)
    if (outer.step[i] != inner.step[i] * inner.size) return false;
  inner.size *= outer.size;
  return true;
}

// Makes a batch dimension part of the matrix dimension `to`, which `other` does not have.
bool fold(const Axis& batch, Axis& to, Operand other) {
  if (batch.step[other] != 0) return false;
  if (to.size != 1) return join(batch, to);
  to = batch;
  return true;
}

// A matrix whose columns are contiguous. The columns must not overlap.
std::optional<BlasMatrix> column_major(ir::Size rows, ir::Size down, ir::Size columns, ir::Size along) {
  if ((down != 1 && rows != 1) || (along < rows && columns != 1)) return {};
  return BlasMatrix{rows, columns, columns == 1 ? rows : along};
}

// The same or the transposed. A row of step 1 is best stored as a column, whose leading dimension does not matter.
std::optional<BlasMatrix> readable(ir::Size rows, ir::Size down, ir::Size columns, ir::Size along) {
  const bool row = rows == 1 && along == 1;
  if (auto plain = row ? std::nullopt : column_major(rows, down, columns, along)) return plain;
  auto stored = column_major(columns, along, rows, down);
  if (stored) stored->transposed = true;
  return stored;
}

// The result's rows are the dimension that it is contiguous along: the caller's n, or m where `swapped` is false.
std::optional<BlasProduct> write_side(const Axes& x, bool swapped, bool addend) {
  const Axis &rows = swapped ? x.n : x.m, &columns = swapped ? x.m : x.n;
  const auto matrix = [&](Operand o) { return column_major(rows.size, rows.step[o], columns.size, columns.step[o]); };
  const auto d = matrix(D), c = addend ? matrix(C) : d;
  if (!d || !c) return {};
  BlasProduct p;
  p.m = rows.size, p.n = columns.size, p.swapped = swapped;
  p.c = *c, p.d = *d;
  return p;
}

std::optional<BlasProduct> both_sides(const Axes& x, bool swapped, bool addend) {
  auto p = write_side(x, swapped, addend);
  if (!p) return {};
  const Axis &rows = swapped ? x.n : x.m, &columns = swapped ? x.m : x.n;
  const Operand first = swapped ? B : A, second = swapped ? A : B;
  const auto a = readable(rows.size, rows.step[first], x.k.size, x.k.step[first]);
  const auto b = readable(x.k.size, x.k.step[second], columns.size, columns.step[second]);
  if (!a || !b) return {};
  p->k = x.k.size;
  p->a = *a, p->b = *b;
  return p;
}

// Row-major results first. A matrix times a vector has one column rather than one row, which is the case that BLAS
// has kernels for; but a bias runs down the rows.
std::optional<BlasProduct> matrices(const Axes& x, bool addend, bool bias) {
  const bool vector = x.n.size == 1 && x.m.size > 1 && !bias;
  if (auto p = both_sides(x, !vector, addend)) return p;
  return bias ? std::nullopt : both_sides(x, vector, addend);
}

void merge_batches(std::vector<Axis>& batch) {
  for (size_t d = batch.size(); d-- > 1;)
    if (join(batch[d - 1], batch[d])) batch.erase(batch.begin() + d - 1);
}

// Batches that share an operand are more rows or columns of one product: a linear layer on [batch, token, feature].
// Given up where an operand would no longer be readable.
void fold_batches(Axes& x, bool addend, bool bias) {
  for (size_t d = x.batch.size(); d-- > 0;) {
    Axes rows = x, columns = x;
    rows.batch.erase(rows.batch.begin() + d);
    columns.batch = rows.batch;
    if (fold(x.batch[d], rows.m, B) && matrices(rows, addend, bias))
      x = std::move(rows);
    else if (!bias && fold(x.batch[d], columns.n, A) && matrices(columns, addend, bias))
      x = std::move(columns);
  }
}

}  // namespace

bool blas_reads(const Layout& l) {
  const size_t rank = l.shape.size();
  if (rank < 2) return false;
  const auto step = [&](size_t d) { return l.shape[d] == 1 ? ir::Size(0) : l.strides[d]; };
  return readable(l.shape[rank - 2], step(rank - 2), l.shape[rank - 1], step(rank - 1)).has_value();
}

bool blas_writes(const Layout& out, const Layout* addend, bool bias) {
  if (out.shape.size() < 2) return false;
  const Axes x = axes_of(nullptr, nullptr, addend, out);
  return write_side(x, true, addend) || (!bias && write_side(x, false, addend));
}

std::optional<BlasProduct> blas_product(const Layout& a, const Layout& b, const Layout& out, const Layout* addend,
                                        bool bias) {
  Axes x = axes_of(&a, &b, addend, out);
  merge_batches(x.batch);
  fold_batches(x, addend, bias);
  auto p = matrices(x, addend, bias);
  if (!p || x.batch.empty()) return p;
  // One batch dimension goes to the library, the longest; each index of the others is a call.
  const auto longest = std::ranges::max_element(x.batch, {}, &Axis::size);
  std::swap(*longest, x.batch.back());
  const Operand first = p->swapped ? B : A, second = p->swapped ? A : B;
  const Axis& inner = x.batch.back();
  p->batches = inner.size;
  p->a.batch_step = inner.step[first], p->b.batch_step = inner.step[second];
  p->c.batch_step = inner.step[addend ? C : D], p->d.batch_step = inner.step[D];
  for (size_t d = 0; d + 1 < x.batch.size(); ++d) {
    const auto& step = x.batch[d].step;
    p->outer.push_back({x.batch[d].size, step[first], step[second], step[addend ? C : D], step[D]});
  }
  return p;
}

std::string describe(const BlasProduct& p) {
  const auto size = [](int64_t n) { return std::to_string(n); };
  const BlasMatrix &first = p.swapped ? p.b : p.a, &second = p.swapped ? p.a : p.b;
  std::string text;
  for (const auto& o : p.outer) text += size(o.size) + " calls of ";
  if (p.batches != 1) text += size(p.batches) + " x ";
  text += size(p.swapped ? p.n : p.m) + "x" + size(p.swapped ? p.m : p.n) + "x" + size(p.k) + " ";
  // In the caller's row-major terms: is the operand stored as it is multiplied?
  text += first.transposed != p.swapped ? "n" : "t";
  text += second.transposed != p.swapped ? "n" : "t";
  return p.swapped ? text : text + " to columns";
}

}  // namespace lazuli::lowering
