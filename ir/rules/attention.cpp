// Shape rules of attention, and attention written out.
#include <bit>
#include <limits>
#include "ir/error.h"
#include "ir/rules/check.h"
#include "ir/rules/rules.h"

namespace lazuli::ir {
namespace {

void check_operands(const Type& q, const Type& k, const Type& v, const Type* mask) {
  for (const Type* t : {&q, &k, &v, mask}) {
    if (!t) continue;
    if (t->dtype != q.dtype || (t->dtype != DType::F32 && t->dtype != DType::F64))
      type_error("attention: expected float32 or float64 throughout, but got ", name(t->dtype));
    if (t->rank() != 4) type_error("attention: expected 4 dimensions, but got ", t->rank());
  }
  const Dims &of_q = q.shape, &of_k = k.shape, &of_v = v.shape;
  const bool keys_fit = of_k[0] == of_v[0] && of_k[1] == of_v[1] && of_k[2] == of_v[2];
  if (!keys_fit || of_q[0] != of_k[0] || of_q[3] != of_k[3] || of_k[2] < 1 || of_q[2] % of_k[2] != 0)
    type_error("attention: queries of ", list_text(of_q), " do not fit keys of ", list_text(of_k), " and values of ",
               list_text(of_v));
  if (!mask) return;
  const Dims scores{of_q[0], of_q[2], of_q[1], of_k[1]};
  for (size_t d = 0; d < 4; ++d)
    if (mask->shape[d] != scores[d] && mask->shape[d] != 1)
      type_error("attention: a mask of ", list_text(mask->shape), " does not broadcast to ", list_text(scores));
}

Type out_type(const Type& q, const Type& v) { return {q.dtype, Dims{q.shape[0], q.shape[1], q.shape[2], v.shape[3]}}; }
Type statistics_type(const Type& q) { return {q.dtype, Dims{q.shape[0], q.shape[2], q.shape[1], 2}}; }

}  // namespace

void infer_attention(std::span<const Type* const> in, const Attrs&, std::span<Type> out) {
  check_operands(*in[0], *in[1], *in[2], in[3]);
  out[0] = out_type(*in[0], *in[2]);
  out[1] = statistics_type(*in[0]);
}

void infer_attention_backward(std::span<const Type* const> in, const Attrs&, std::span<Type> out) {
  const Type &q = *in[1], &k = *in[2], &v = *in[3];
  check_operands(q, k, v, in[6]);
  if (*in[0] != out_type(q, v) || *in[4] != out_type(q, v) || *in[5] != statistics_type(q))
    type_error("attention_backward: expected a cotangent, out and statistics of attention's types");
  out[0] = q, out[1] = k, out[2] = v;
}

// The scores of all rows at once, [batch * heads, queries, keys].
void decompose_attention(Builder& b, const Application& a, std::span<Value> results) {
  const DType type = b.dtype(a.inputs[0]);
  const Dims of_q = b.shape(a.inputs[0]), of_k = b.shape(a.inputs[1]);
  const Size batch = of_q[0], queries = of_q[1], heads = of_q[2], keys = of_k[1], groups = of_k[2];
  const auto by_head = [&](Value x) {
    const Dims shape = b.shape(x);
    x = b.permute(x, Dims{0, 2, 1, 3});
    if (shape[2] != heads) {
      x = b.reshape(x, Dims{batch, groups, 1, shape[1], shape[3]});
      x = b.broadcast(x, Dims{batch, groups, heads / groups, shape[1], shape[3]});
    }
    return b.reshape(x, Dims{batch * heads, shape[1], shape[3]});
  };
  const Value q = by_head(a.inputs[0]), k = by_head(a.inputs[1]), v = by_head(a.inputs[2]);
  Value s = b.mul(b.emit(Op::matmul, {q, b.transpose(k)}), std::bit_cast<double>(a.attrs.number(0)));
  const Dims whole{batch * heads, queries, keys};
  if (a.inputs[3]) s = b.add(s, b.reshape(b.broadcast(a.inputs[3], Dims{batch, heads, queries, keys}), whole));
  const double infinity = std::numeric_limits<double>::infinity();
  if (a.attrs.number(1)) {
    const Value query = b.reshape(b.emit(Op::iota, {}, Attrs{{queries}}), Dims{queries, 1}),
                key = b.emit(Op::iota, {}, Attrs{{keys}});
    s = b.emit(Op::where, {b.emit(Op::le, {key, query}), s, b.constant(-infinity, type)});
  }
  const Dims along{2};
  const Value none = b.constant(-infinity, type), zero = b.constant(0, type);
  Value largest = b.emit(Op::amax, {s}, Attrs().add(along).add(1));
  largest = b.emit(Op::where, {b.emit(Op::eq, {largest, none}), zero, largest});
  const auto below = [&](Value shift) { return b.emit(Op::exp, {b.sub(s, shift)}); };
  // It only keeps exp in range, so nothing flows through it to what is attended.
  const Value e = below(b.emit(Op::detach, {largest})), sum = b.sum(e, along, true);
  const Value divisor = b.emit(Op::where, {b.emit(Op::eq, {sum, zero}), b.constant(1, type), sum});
  const Value y = b.emit(Op::matmul, {b.div(e, divisor), v});
  results[0] = b.permute(b.reshape(y, Dims{batch, heads, queries, b.shape(v)[2]}), Dims{0, 2, 1, 3});
  const Value all = b.sum(below(largest), along, true);
  const Value log =
      b.emit(Op::where, {b.emit(Op::eq, {all, zero}), b.constant(infinity, type), b.emit(Op::log, {all})});
  results[1] = b.reshape(b.emit(Op::cat, {largest, log}, Attrs{{2}}), Dims{batch, heads, queries, 2});
}

int64_t terms_attention(std::span<const Type* const> in, const Attrs&, const Type&) {
  return in[0]->shape[3] + in[1]->shape[1];
}
int64_t terms_attention_backward(std::span<const Type* const> in, const Attrs&, const Type&) {
  return in[1]->shape[1] + in[2]->shape[1] + 2 * in[1]->shape[3];
}

}  // namespace lazuli::ir
