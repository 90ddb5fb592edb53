// Views: each result element is the operand's element at some flat position.
#include "ir/interpret/number.h"
#include "ir/interpret/rules.h"

namespace lazuli::ir {
namespace {

template <class Source>
void rearrange(const Tensor& x, Tensor& y, Source source) {
  for_each(y.type.shape,
           [&](int64_t flat, std::span<const int64_t> index) { copy_element(y, flat, x, source(index)); });
}

}  // namespace

// Bitcast too: the bytes are the same.
void interpret_reshape(const Node&, std::span<const Tensor* const> in, std::span<Tensor> out) {
  out[0].data = in[0]->data;
}

void interpret_permute(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  auto order = node.attrs.list(0);
  Dims dense = contiguous_strides(in[0]->type.shape), strides = dense;
  for (size_t i = 0; i < order.size(); ++i) strides[i] = dense[order[i]];
  rearrange(*in[0], out[0], [&](std::span<const int64_t> index) { return dot(index, strides); });
}

void interpret_broadcast(const Node&, std::span<const Tensor* const> in, std::span<Tensor> out) {
  Dims strides = broadcast_strides(in[0]->type.shape, out[0].type.shape.size());
  rearrange(*in[0], out[0], [&](std::span<const int64_t> index) { return dot(index, strides); });
}

void interpret_slice(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  Dims strides = contiguous_strides(in[0]->type.shape);
  int64_t offset = dot(node.attrs.list(0), strides);
  for (size_t i = 0; i < strides.size(); ++i) strides[i] *= node.attrs.list(2)[i];
  rearrange(*in[0], out[0], [&](std::span<const int64_t> index) { return offset + dot(index, strides); });
}

void interpret_flip(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  Dims strides = contiguous_strides(in[0]->type.shape);
  int64_t offset = 0;
  for (int64_t d : node.attrs.list(0)) {
    offset += (in[0]->type.shape[d] - 1) * strides[d];
    strides[d] = -strides[d];
  }
  rearrange(*in[0], out[0], [&](std::span<const int64_t> index) { return offset + dot(index, strides); });
}

void interpret_as_strided(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  int64_t offset = node.attrs.number(2);
  rearrange(*in[0], out[0],
            [&](std::span<const int64_t> index) { return offset + dot(index, node.attrs.list(1)); });
}

}  // namespace lazuli::ir
