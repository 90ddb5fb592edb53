// Rows that move elements.
#include "ir/interpret/number.h"
#include "ir/interpret/rules.h"

namespace lazuli::ir {
namespace {

int64_t checked(int64_t index, int64_t size) {
  if (index < 0 || index >= size)
    throw TypeError("index " + std::to_string(index) + " is out of bounds for dimension with size " +
                    std::to_string(size));
  return index;
}

void add_element(Tensor& to, int64_t i, const Tensor& from, int64_t k) {
  dispatch(compute_type(to.type.dtype), [&]<class T>() {
    using A = Accumulator<T>;
    store<T>(to, i, static_cast<T>(static_cast<A>(load<T>(to, i)) + static_cast<A>(load<T>(from, k))));
  });
}

// Calls f(position in `index`, position in x) for each element of gather's and scatter's index.
template <class F>
void for_each_picked(const Node& node, const Tensor& x, const Tensor& index, F f) {
  int64_t dim = node.attrs.number(0);
  Dims strides = contiguous_strides(x.type.shape);
  for_each(index.type.shape, [&](int64_t flat, std::span<const int64_t> at) {
    int64_t picked = checked(load_index(index, flat), x.type.shape[dim]);
    f(flat, dot(at, strides) + (picked - at[dim]) * strides[dim]);
  });
}

// Calls f(position in the selection, position in x): x[:, index, :] element by element.
template <class F>
void for_each_selected(const Node& node, const Tensor& x, const Tensor& index, F f) {
  std::span<const int64_t> shape = x.type.shape;
  auto dim = static_cast<size_t>(node.attrs.number(0));
  int64_t outer = product(shape.first(dim)), size = shape[dim], inner = product(shape.subspan(dim + 1));
  int64_t count = index.type.numel(), at = 0;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < count; ++i) {
      int64_t row = o * size + checked(load_index(index, i), size);
      for (int64_t k = 0; k < inner; ++k) f(at++, row * inner + k);
    }
}

}  // namespace

void interpret_as_strided_scatter(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  out[0].data = in[0]->data;
  int64_t offset = node.attrs.number(1);
  for_each(in[1]->type.shape, [&](int64_t flat, std::span<const int64_t> index) {
    copy_element(out[0], offset + dot(index, node.attrs.list(0)), *in[1], flat);
  });
}

void interpret_cat(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  int64_t dim = node.attrs.number(0), before = 0;
  Dims strides = contiguous_strides(out[0].type.shape);
  for (const Tensor* t : in) {
    for_each(t->type.shape, [&](int64_t flat, std::span<const int64_t> index) {
      copy_element(out[0], dot(index, strides) + before * strides[dim], *t, flat);
    });
    before += t->type.shape[dim];
  }
}

void interpret_pad(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  auto low = node.attrs.list(0);
  const Dims& shape = in[0]->type.shape;
  Dims strides = contiguous_strides(shape);
  for_each(out[0].type.shape, [&](int64_t flat, std::span<const int64_t> index) {
    bool inside = true;
    for (size_t d = 0; d < index.size(); ++d) inside &= index[d] - low[d] >= 0 && index[d] - low[d] < shape[d];
    if (inside)
      copy_element(out[0], flat, *in[0], dot(index, strides) - dot(low, strides));
    else
      copy_element(out[0], flat, *in[1], 0);
  });
}

void interpret_gather(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  for_each_picked(node, *in[0], *in[1], [&](int64_t flat, int64_t at) { copy_element(out[0], flat, *in[0], at); });
}

void interpret_scatter(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  out[0].data = in[0]->data;
  for_each_picked(node, out[0], *in[1], [&](int64_t flat, int64_t at) { copy_element(out[0], at, *in[2], flat); });
}

void interpret_scatter_add(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  out[0].data = in[0]->data;
  for_each_picked(node, out[0], *in[1], [&](int64_t flat, int64_t at) { add_element(out[0], at, *in[2], flat); });
}

void interpret_index_select(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  for_each_selected(node, *in[0], *in[1], [&](int64_t flat, int64_t at) { copy_element(out[0], flat, *in[0], at); });
}

void interpret_index_add(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  out[0].data = in[0]->data;
  for_each_selected(node, out[0], *in[1], [&](int64_t flat, int64_t at) { add_element(out[0], at, *in[2], flat); });
}

void interpret_index_copy(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  out[0].data = in[0]->data;
  for_each_selected(node, out[0], *in[1], [&](int64_t flat, int64_t at) { copy_element(out[0], at, *in[2], flat); });
}

}  // namespace lazuli::ir
