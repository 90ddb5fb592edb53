#include "lazy/rows/eager_rows.h"

#include <bit>
#include <limits>
#include <ATen/ops/avg_pool2d_backward.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/index_add.h>
#include <ATen/ops/index_copy.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include "ir/error.h"
#include "lazy/memory/torch_buffers.h"
#include "lazy/rows/torch_operators.h"
#include "lazy/support/convert.h"
#include "lazy/support/plain_dispatch.h"

namespace lazuli::lazy {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Call {
  const ir::Attrs& attrs;
  const Tensors& in;
  std::span<const lowering::Layout> results;

  at::IntArrayRef list(size_t i) const { return list_of(attrs, i); }
  int64_t number(size_t i) const { return attrs.number(i); }
  at::IntArrayRef shape(size_t r = 0) const { return to_ref(results[r].shape); }
  // Memory like a result's that nobody reads.
  Tensor shaped(const Tensor& like) const {
    return at::empty_strided(shape(), to_ref(results[0].strides), like.options());
  }
};

// Attributes: stride, padding, dilation, transposed, output padding, groups.
Tensor convolution_backward(const Call& c, const Tensor& gy, const Tensor& x, const Tensor& w, size_t wanted) {
  std::array<bool, 3> mask{wanted == 0, wanted == 1, false};
  auto grads = at::convolution_backward(gy, x, w, std::nullopt, c.list(0), c.list(1), c.list(2), c.number(3) != 0,
                                        c.list(4), c.number(5), mask);
  return wanted == 0 ? std::get<0>(grads) : std::get<1>(grads);
}
Tensors convolution_input_grad(const Call& c) {
  return {convolution_backward(c, c.in[0], c.shaped(c.in[0]), c.in[1], 0)};
}
Tensors convolution_weight_grad(const Call& c) {
  return {convolution_backward(c, c.in[0], c.in[1], c.shaped(c.in[0]), 1)};
}

Tensors max_pool2d_grad(const Call& c) {
  const Tensor gx = c.shaped(c.in[0]).zero_();
  auto planes = gx.sizes().vec();
  planes.pop_back();
  planes.back() *= gx.size(-1);
  // Rows of a plane follow each other in row-major memory and in channels-last memory, so this is a view.
  gx.view(planes).scatter_add_(-1, c.in[1].flatten(-2), c.in[0].flatten(-2));
  return {gx};
}
std::optional<int64_t> divisor(const Call& c) {
  return c.number(5) ? std::optional<int64_t>(c.number(5)) : std::nullopt;
}
Tensors avg_pool2d_grad(const Call& c) {
  Tensor x = c.shaped(c.in[0]);
  return {at::avg_pool2d_backward(c.in[0], x, c.list(0), c.list(1), c.list(2), c.number(3) != 0, c.number(4) != 0,
                                  divisor(c))};
}

// What goes to the slices along `dim` that the index names, with one dimension for the whole index.
struct Slices {
  int64_t dim;
  Tensor index, values;
  explicit Slices(const Call& c) : dim(c.number(0)), index(c.in[1].flatten().to(at::kLong)) {
    auto shape = c.in[0].sizes().vec();
    shape[dim] = index.numel();
    values = c.in[2].reshape(shape);
  }
};
Tensors index_add(const Call& c) {
  const Slices s(c);
  return {at::index_add(c.in[0], s.dim, s.index, s.values)};
}
Tensors index_copy(const Call& c) {
  const Slices s(c);
  return {at::index_copy(c.in[0], s.dim, s.index, s.values)};
}
// In as many rounds as it takes for each element to have met all before it: in each one y reaches twice as far back,
// and `a` is the product on the way.
Tensors linear_recurrence(const Call& c) {
  const int64_t dim = c.number(0), size = c.in[0].size(dim);
  const bool reverse = c.number(1) != 0;
  const at::ScalarType type = c.in[0].scalar_type(), wide = at::isReducedFloatingType(type) ? at::kFloat : at::kDouble;
  Tensor a = c.in[0].to(wide), y = c.in[1].to(wide);
  if (reverse) a = a.roll(-1, dim);  // what comes round belongs to the last element, which has none behind it
  auto far = [&](const Tensor& x, int64_t by) { return x.slice(dim, reverse ? by : 0, reverse ? size : size - by); };
  auto near = [&](const Tensor& x, int64_t by) { return x.slice(dim, reverse ? 0 : by, reverse ? size - by : size); };
  auto put = [&](const Tensor& x, const Tensor& changed, int64_t by) {
    const Tensor same = x.slice(dim, reverse ? size - by : 0, reverse ? size : by);
    return reverse ? at::cat({changed, same}, dim) : at::cat({same, changed}, dim);
  };
  for (int64_t by = 1; by < size; by *= 2) {
    y = put(y, near(y, by) + near(a, by) * far(y, by), by);
    if (by * 2 < size) a = put(a, near(a, by) * far(a, by), by);
  }
  return {y.to(type)};
}

// Attention written out, since torch's kernels keep less of a row's sum than the row does. Operands are [batch, rows,
// heads, columns]; of keys and values each head is there as often as queries' heads meet it.
Tensor by_head(const Tensor& x, int64_t heads) {
  const Tensor y = x.transpose(1, 2);
  return heads == y.size(1) ? y : y.repeat_interleave(heads / y.size(1), 1);
}
Tensor sum_of_heads(const Tensor& by_head, int64_t heads) {
  const Tensor y = heads == by_head.size(1) ? by_head : by_head.unflatten(1, {heads, by_head.size(1) / heads}).sum(2);
  return y.transpose(1, 2);
}
Tensor scores(const Call& c, const Tensor& q, const Tensor& k, const Tensor& mask) {
  Tensor s = at::matmul(q, k.transpose(2, 3)) * std::bit_cast<double>(c.number(0));
  if (mask.defined()) s = s + mask;
  if (c.number(1) == 0) return s;
  return s.masked_fill(at::ones({s.size(2), s.size(3)}, s.options().dtype(at::kBool)).triu(1), -kInfinity);
}
Tensors attention(const Call& c) {
  const int64_t heads = c.in[0].size(2);
  const Tensor s = scores(c, by_head(c.in[0], heads), by_head(c.in[1], heads), c.in[3]);
  Tensor largest = s.amax(3, true);
  largest = largest.masked_fill(largest == -kInfinity, 0);
  const Tensor e = (s - largest).exp(), sum = e.sum(3, true), none = sum == 0;
  const Tensor y = at::matmul(e / sum.masked_fill(none, 1), by_head(c.in[2], heads));
  return {y.transpose(1, 2), at::cat({largest, sum.log().masked_fill(none, kInfinity)}, 3)};
}
Tensors attention_backward(const Call& c) {
  const int64_t heads = c.in[1].size(2), groups = c.in[2].size(2);
  const Tensor gy = by_head(c.in[0], heads), q = by_head(c.in[1], heads), k = by_head(c.in[2], heads),
               v = by_head(c.in[3], heads);
  const Tensor s = scores(c, q, k, c.in[6]), delta = (gy * by_head(c.in[4], heads)).sum(3, true);
  const Tensor p = (s - c.in[5].slice(3, 0, 1) - c.in[5].slice(3, 1, 2)).exp();
  const Tensor gs = p * (at::matmul(gy, v.transpose(2, 3)) - delta) * std::bit_cast<double>(c.number(0));
  return {at::matmul(gs, k).transpose(1, 2), sum_of_heads(at::matmul(gs.transpose(2, 3), q), groups),
          sum_of_heads(at::matmul(p.transpose(2, 3), gy), groups)};
}

struct Row {
  ir::Op op;
  Tensors (*run)(const Call&);
};
// Those that no operator computes as they stand.
const Row kRows[] = {
    {ir::Op::convolution_input_grad, convolution_input_grad},
    {ir::Op::convolution_weight_grad, convolution_weight_grad},
    {ir::Op::attention, attention},
    {ir::Op::attention_backward, attention_backward},
    {ir::Op::max_pool2d_grad, max_pool2d_grad},
    {ir::Op::avg_pool2d_grad, avg_pool2d_grad},
    {ir::Op::index_add, index_add},
    {ir::Op::index_copy, index_copy},
    {ir::Op::linear_recurrence, linear_recurrence},
};

Tensor with_strides(const Tensor& t, at::IntArrayRef strides) {
  bool same = t.storage_offset() == 0;
  for (int64_t d = 0; d < t.dim(); ++d) same = same && (t.size(d) == 1 || t.stride(d) == strides[d]);
  return same || t.numel() == 0 ? t : at::empty_strided(t.sizes(), strides, t.options()).copy_(t);
}

}  // namespace

std::optional<Tensors> call_eager_row(const ir::Node& node, const Tensors& in) {
  const auto row = std::ranges::find(kRows, node.op, &Row::op);
  if (row == std::end(kRows)) return {};
  std::vector<lowering::Layout> results;
  for (const ir::Type& t : node.types) results.push_back({t.dtype, t.shape, ir::contiguous_strides(t.shape)});
  return row->run({node.attrs, in, results});
}

std::vector<jit::Buffer> run_eager_row(const ir::Node& node, std::span<const jit::BufferView> inputs,
                                       std::span<const lowering::Layout> results) {
  PlainDispatch guard;
  Tensors in;
  for (const jit::BufferView& v : inputs)
    in.push_back(v.buffer.data || v.type.numel() == 0 ? tensor_over(v) : Tensor());
  const auto row = std::ranges::find(kRows, node.op, &Row::op);
  const std::optional<Tensors> made =
      row == std::end(kRows) ? call_operator(node, in) : std::optional(row->run({node.attrs, in, results}));
  LAZULI_CHECK(made, "torch's kernels serve no row " + std::string(ir::name(node.op)));
  std::vector<jit::Buffer> out;
  for (size_t r = 0; r < made->size(); ++r) {
    const Tensor& t = (*made)[r];
    LAZULI_CHECK(t.sizes() == to_ref(results[r].shape) && t.scalar_type() == to_torch(results[r].dtype),
                 "torch's kernel for " + std::string(ir::name(node.op)) + " gave another type than the row");
    out.push_back(buffer_of(with_strides(t, to_ref(results[r].strides))));
  }
  return out;
}

}  // namespace lazuli::lazy
