#include "lowering/index/index_rules.h"

namespace lazuli::lowering {
namespace {

using ir::Dims;
using ir::Graph;
using ir::Value;

IndexedRead read_gather(const Graph& g, Value v) {
  const ir::Node& node = g[v];
  const ir::Size dim = node.attrs.number(0);
  IndexedRead r;
  r.operand.strides = ir::contiguous_strides(g.type(node.inputs[0]).shape);
  r.index.strides = ir::contiguous_strides(g.type(v).shape);
  if (r.operand.strides.empty()) {  // 0-dim operand: its only element, whatever the index
    r.index_stride = 0;
    r.index_size = 1;
    return r;
  }
  r.index_stride = r.operand.strides[dim];
  r.index_size = g.type(node.inputs[0]).shape[dim];
  r.operand.strides[dim] = 0;
  return r;
}

IndexedRead read_index_select(const Graph& g, Value v) {
  const ir::Node& node = g[v];
  const ir::Size dim = node.attrs.number(0);
  const Dims x = ir::contiguous_strides(g.type(node.inputs[0]).shape);
  const Dims index = ir::contiguous_strides(g.type(node.inputs[1]).shape);
  IndexedRead r;
  r.index_stride = x[dim];
  r.index_size = g.type(node.inputs[0]).shape[dim];
  for (ir::Size d = 0; d < dim; ++d) r.operand.strides.push_back(x[d]);
  r.index.strides.resize(dim, 0);
  r.operand.strides.resize(dim + index.size(), 0);
  r.index.strides.append(index);
  for (size_t d = dim + 1; d < x.size(); ++d) r.operand.strides.push_back(x[d]);
  r.index.strides.resize(r.operand.strides.size(), 0);
  return r;
}

std::vector<Root> place_cat(const Graph& g, Value v) {
  const ir::Node& node = g[v];
  const ir::Size dim = node.attrs.number(0);
  const Dims strides = ir::contiguous_strides(g.type(v).shape);
  std::vector<Root> roots;
  ir::Size at = 0;
  for (Value x : node.inputs) {
    const Dims& shape = g.type(x).shape;
    if (shape.size() != strides.size()) continue;  // torch lets empty one-dimensional operands stand beside others
    roots.push_back({x, v, ir::StridedWindow{strides, at * strides[dim]}});
    at += shape[dim];
  }
  return roots;
}

// Amounts are not negative here: the pass crop_pads has cropped the operand before.
std::vector<Root> place_pad(const Graph& g, Value v) {
  const ir::Node& node = g[v];
  const Dims& shape = g.type(v).shape;
  ir::StridedWindow inside{ir::contiguous_strides(shape), 0};
  const auto low = node.attrs.list(0);
  for (size_t d = 0; d < shape.size(); ++d) inside.offset += low[d] * inside.strides[d];
  return {{node.inputs[1], v, {}}, {node.inputs[0], v, inside}};
}

std::vector<Root> place_as_strided_scatter(const Graph& g, Value v) {
  const ir::Node& node = g[v];
  return {{node.inputs[0], v, {}},
          {node.inputs[1], v, ir::StridedWindow{Dims(node.attrs.list(0)), node.attrs.size(1)}}};
}

struct Entry {
  ir::Op op;
  IndexRule rule;
};
const Entry kRules[] = {
    {ir::Op::gather, {.read = read_gather}},
    {ir::Op::index_select, {.read = read_index_select}},
    {ir::Op::cat, {.place = place_cat}},
    {ir::Op::pad, {.place = place_pad, .overlapping = true}},
    {ir::Op::as_strided_scatter, {.place = place_as_strided_scatter, .overlapping = true}},
};

}  // namespace

const IndexRule* index_rule(ir::Op op) {
  for (const Entry& e : kRules)
    if (e.op == op) return &e.rule;
  return nullptr;
}

}  // namespace lazuli::lowering
