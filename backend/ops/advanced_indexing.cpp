// x[i, j, :, k] with integral index tensors and masks, read and written. Together the indices give one position along a
// single dimension that stands for all that they index, so that reading is one gather and writing one scatter of
// slices. A mask is an index for as many dimensions as it has: the positions of what it picks.
#include <bit>
#include <numeric>
#include <ATen/ExpandUtils.h>
#include <ATen/TensorUtils.h>
#include <ATen/core/IListRef.h>
#include "backend/record/dispatch.h"
#include "backend/record/operands.h"
#include "backend/record/positions.h"
#include "backend/record/registration.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using Indices = c10::List<std::optional<Tensor>>;

struct Index {
  Tensor positions;  // in the dimension; of a mask, in all of its dimensions together
  size_t dims = 1;   // how many it indexes
  bool is_mask = false;
};

struct Indexing {
  ir::Dims dims;  // that are indexed
  std::vector<Index> index;
  ir::Dims entries;  // the shape that the indices broadcast to
  size_t first = 0;  // where it stands in the result
  ir::Dims shape;    // of the result

  bool indexes(int64_t d) const { return std::ranges::find(dims, ir::Size(d)) != dims.end(); }
};

// `rest` with `middle` put in before its element number `at`.
ir::Dims spliced(const ir::Dims& rest, size_t at, const ir::Dims& middle) {
  ir::Dims out;
  for (size_t d = 0; d <= rest.size(); ++d) {
    if (d == at) out.append(middle);
    if (d < rest.size()) out.push_back(rest[d]);
  }
  return out;
}

// The elements of `all` that stand for dimensions without an index.
ir::Dims unindexed(const ir::Dims& all, const Indexing& i) {
  ir::Dims out;
  for (size_t d = 0; d < all.size(); ++d)
    if (!i.indexes(static_cast<int64_t>(d))) out.push_back(all[d]);
  return out;
}

// What a mask picks of the dimensions from `first` on; none if it does not fit there.
std::optional<Index> read_mask(const Tensor& x, int64_t first, const Tensor& mask) {
  if (mask.dim() == 0 || first + mask.dim() > x.dim()) return {};
  for (int64_t d = 0; d < mask.dim(); ++d)
    if (mask.size(d) != x.size(first + d)) return {};
  const Tensor positions =
      mask.is_cpu() ? at::nonzero(mask.reshape({-1})).reshape({-1}).to(x.device()) : positions_of(mask);
  return Index{positions, static_cast<size_t>(mask.dim()), true};
}

void warn_of_bytes() {
  TORCH_WARN("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.");
}

// None where the rules are eager's to apply: errors, nothing to select from.
std::optional<Indexing> read_indices(const Tensor& x, const Indices& indices) {
  if (!is_ours(x) || x.numel() == 0) return {};
  Indexing i;
  int64_t bytes = 0, d = 0;  // the dimension that comes next
  for (size_t k = 0; k < indices.size(); ++k) {
    std::optional<Tensor> t = indices.get(k);
    if (!t || !t->defined()) {
      ++d;
      continue;
    }
    if (!(t->is_cpu() || is_ours(*t))) return {};
    if (is_mask(*t)) {
      std::optional<Index> mask = read_mask(x, d, *t);
      if (!mask) return {};
      bytes += t->scalar_type() == at::kByte;
      i.index.push_back(*std::move(mask));
    } else if (t->scalar_type() == at::kLong || t->scalar_type() == at::kInt) {
      i.index.push_back({t->is_cpu() ? t->to(x.device()) : *t});
    } else {
      return {};
    }
    const Tensor& positions = i.index.back().positions;
    if (!at::are_expandable(lazy::to_ref(i.entries), positions.sizes())) return {};
    auto entries = at::infer_size_dimvector(lazy::to_ref(i.entries), positions.sizes());
    i.entries.assign(entries.data(), entries.size());
    for (size_t n = i.index.back().dims; n-- > 0; ++d) i.dims.push_back(d);
  }
  if (i.dims.empty() || d > x.dim()) return {};
  while (bytes-- > 0) warn_of_bytes();
  // Indices side by side are replaced where they stand; otherwise the entries lead.
  const bool adjacent = i.dims.back() - i.dims[0] + 1 == static_cast<int64_t>(i.dims.size());
  i.first = adjacent ? static_cast<size_t>(i.dims[0]) : 0;
  i.shape = spliced(unindexed(lazy::to_dims(x.sizes()), i), i.first, i.entries);
  return i;
}

// positions / size, for positions below `end`. Processors have no vectors of divisions: as long as the product fits, it
// is one with a reciprocal in fixed point, of 31 bits more than the size has, which gives the same.
ir::Value quotient(lazy::Recording& r, ir::Value positions, int64_t size, int64_t end) {
  const auto number = [&](int64_t n) { return r.constant(static_cast<double>(n), ir::DType::I64); };
  constexpr int kBits = 31;
  if (end > int64_t{1} << kBits) return r.emit(ir::Op::trunc_divide, {positions, number(size)});
  const int shift = kBits + std::bit_width(static_cast<uint64_t>(size - 1));
  const int64_t reciprocal = ((int64_t{1} << shift) + size - 1) / size;
  return r.emit(ir::Op::shift_right, {r.emit(ir::Op::mul, {positions, number(reciprocal)}), number(shift)});
}

// Takes positions apart: calls f for each dimension of these sizes, the last one first, with the coordinates along it.
template <class F>
void for_each_coordinate(lazy::Recording& r, ir::Value positions, std::span<const int64_t> sizes, F f) {
  int64_t end = 1;
  for (int64_t n : sizes) end *= n;
  for (size_t d = sizes.size(); d-- > 1; end /= sizes[d]) {
    const ir::Value before = quotient(r, positions, sizes[d], end);
    f(d, r.sub(positions, r.mul(before, static_cast<double>(sizes[d]))));
    positions = before;
  }
  f(0, positions);
}

// The sum of a mask's coordinates times `steps`. Dimensions that follow one another in steps need not be told apart.
ir::Value place(lazy::Recording& r, ir::Value positions, ir::SizeSpan sizes, ir::SizeSpan steps) {
  ir::Dims merged{1}, apart{1};
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) continue;
    const bool follows = merged.back() == 1 || apart.back() == steps[d] * sizes[d];
    if (!follows) merged.push_back(1);
    apart.resize(merged.size());
    merged.back() *= sizes[d], apart.back() = steps[d];
  }
  ir::Value sum;
  for_each_coordinate(r, positions, merged, [&](size_t d, ir::Value v) {
    if (apart[d] != 1) v = r.mul(v, static_cast<double>(apart[d]));
    sum = sum ? r.add(sum, v) : v;
  });
  return sum;
}

// The sum of each index times `steps`, in the shape of the entries.
ir::Value position(lazy::Recording& r, const Tensor& x, const Indexing& i, const ir::Dims& steps) {
  ir::Value sum;
  size_t k = 0;
  for (const Index& index : i.index) {
    ir::Value v = r.value(index.positions);
    if (index.is_mask) {
      ir::Dims sizes;
      for (size_t n = 0; n < index.dims; ++n) sizes.push_back(x.size(i.dims[k + n]));
      v = place(r, v, sizes, ir::SizeSpan(steps).subspan(k, index.dims));
    } else {
      v = r.emit(ir::Op::index_position, {v, r.constant(static_cast<double>(x.size(i.dims[k])), r.dtype(v))});
      v = r.convert(v, ir::DType::I64);
      if (steps[k] != 1) v = r.mul(v, static_cast<double>(steps[k]));
    }
    k += index.dims;
    sum = sum ? r.add(sum, v) : v;
  }
  return r.broadcast(sum, i.entries);
}

// How torch's kernel walks an index over the result's dimensions: it lies as a view with dimensions of size 1 in the
// place of those that it does not have, and where the result's are larger it stands still.
ir::Dims walk_of(const Tensor& positions, const Indexing& i) {
  const ir::Dims strides = aligned_strides(positions, i.entries);
  at::DimVector shape(i.shape.size(), 1);
  for (size_t d = 0; d < i.entries.size(); ++d) shape[i.first + d] = i.entries[d];
  const auto seen = at::detail::computeStride(lazy::to_ref(i.entries), lazy::to_ref(strides), shape);
  if (!seen) return spliced(ir::Dims(i.shape.size() - i.entries.size(), 0), i.first, strides);
  ir::Dims walk(i.shape.size(), 0);
  for (size_t d = 0; d < walk.size(); ++d)
    if (i.shape[d] == shape[d]) walk[d] = (*seen)[d];
  return walk;
}

// torch walks the elements of x and of the indices as an elementwise kernel does, and the result follows.
lazy::Order order_of_result(const Tensor& x, const Indexing& i) {
  bool usual = has_usual_strides(x);
  for (const Index& k : i.index) usual &= has_usual_strides(k.positions);
  if (usual) return {};
  const ir::Dims strides = unindexed(lazy::to_dims(x.strides()), i);
  std::vector<ir::Dims> walks{spliced(strides, i.first, ir::Dims(i.entries.size(), 0))};
  for (const Index& k : i.index) walks.push_back(walk_of(k.positions, i));
  return order_of_walks(walks, i.shape);
}

// Where each element of the result lies in x's memory, by the strides there: of all dimensions, in the result's order.
ir::Value places(lazy::Recording& r, const Tensor& x, const Indexing& i, const ir::Dims& strides,
                 const lazy::Order& order) {
  const auto laid = [&](ir::Value v, const ir::Dims& shape) {
    v = r.reshape(v, shape);
    return order.empty() ? v : r.permute(v, order);
  };
  ir::Dims steps;
  for (int64_t d : i.dims) steps.push_back(strides[d]);
  const ir::Dims sizes = unindexed(lazy::to_dims(x.sizes()), i), apart = unindexed(strides, i), ones(sizes.size(), 1);
  ir::Value sum = laid(position(r, x, i, steps), spliced(ones, i.first, i.entries));
  for (size_t d = 0; d < sizes.size(); ++d) {
    ir::Value v = r.emit(ir::Op::iota, std::span<const ir::Value>(), ir::Attrs{{sizes[d]}});
    if (apart[d] != 1) v = r.mul(v, static_cast<double>(apart[d]));
    ir::Dims along = ones;
    along[d] = sizes[d];
    sum = r.add(sum, laid(v, spliced(along, i.first, ir::Dims(i.entries.size(), 1))));
  }
  return sum;
}

// Where the indexed dimensions follow one another in x's memory, they are one that is gathered from. Otherwise single
// elements are.
Tensor read(const Tensor& x, const Indexing& i) {
  const lazy::Order order = order_of_result(x, i);
  lazy::Order memory;
  if (!lazy::memory_order(x.sizes(), x.strides(), memory)) memory.clear();
  lazy::Recording r;
  ir::Value v = r.value(x, memory);
  const ir::Dims dense = ir::contiguous_strides(r.shape(v));
  ir::Dims strides = dense;
  for (size_t d = 0; d < memory.size(); ++d) strides[memory[d]] = dense[d];

  int64_t step = 0, last = 0, count = 1;
  for (int64_t d : i.dims)
    step = std::gcd(step, int64_t{strides[d]}), last += (x.size(d) - 1) * strides[d], count *= x.size(d);
  if (last / step + 1 != count) {
    v = r.emit(ir::Op::index_select, {r.reshape(v, ir::Dims{x.numel()}), places(r, x, i, strides, order)}, {{0}});
    return r.tensor(v, x.scalar_type(), order);
  }
  ir::Dims steps;
  for (int64_t d : i.dims) steps.push_back(strides[d] / step);
  const ir::Dims shape = spliced(unindexed(lazy::to_dims(x.sizes()), i), i.first, {count});
  const ir::Dims window = spliced(unindexed(strides, i), i.first, {step});
  if (window == ir::contiguous_strides(shape)) {
    v = r.reshape(v, shape);
  } else {
    ir::Attrs attrs;
    attrs.add(shape).add(window).add(0);
    v = r.emit(ir::Op::as_strided, {v}, attrs);
  }
  v = r.emit(ir::Op::index_select, {v, position(r, x, i, steps)}, {{static_cast<int64_t>(i.first)}});
  return r.tensor(order.empty() ? v : r.permute(v, order), x.scalar_type(), order);
}

Tensor index(const Tensor& x, const Indices& indices) {
  auto i = read_indices(x, indices);
  return i ? read(x, *i) : fall_back<Tensor>("aten::index", "Tensor", x, indices);
}

// The indexed dimensions are brought together and made one, in which slices are written.
void write(Tensor& x, const Indexing& i, const Tensor& values, bool accumulate) {
  const ir::DType type = lazy::to_ir(x.scalar_type());
  ir::Dims every, steps(i.dims.size(), 1), inverse(x.dim(), 0);
  for (int64_t d = 0; d < x.dim(); ++d) every.push_back(d);
  const ir::Dims order = spliced(unindexed(every, i), i.first, i.dims);
  for (size_t k = i.dims.size() - 1; k-- > 0;) steps[k] = steps[k + 1] * x.size(i.dims[k + 1]);
  const ir::Dims merged = spliced(unindexed(lazy::to_dims(x.sizes()), i), i.first, {steps[0] * x.size(i.dims[0])});
  for (size_t d = 0; d < order.size(); ++d) inverse[order[d]] = static_cast<int64_t>(d);

  lazy::Recording r;
  ir::Value base = r.permute(r.value(x), order);
  const ir::Dims apart = r.shape(base);
  ir::Value slices = r.broadcast(backend::read(r, {&values, {}}, type, {}), i.shape);
  base = r.emit(accumulate ? ir::Op::index_add : ir::Op::index_copy,
                {r.reshape(base, merged), position(r, x, i, steps), slices}, {{static_cast<int64_t>(i.first)}});
  r.write(x, r.permute(r.reshape(base, apart), inverse));
}

// The one mask that is all that indexes x, or several dimensions of it, and where these begin.
struct OnlyMask {
  Tensor mask;  // undefined: there is none
  int64_t first = 0;
};
OnlyMask only_mask(const Tensor& x, const Indices& indices) {
  OnlyMask found;
  for (size_t d = 0; d < indices.size(); ++d) {
    std::optional<Tensor> t = indices.get(d);
    if (!t || !t->defined()) continue;
    if (found.mask.defined() || !is_mask(*t) || !is_ours(*t)) return {};
    found = {*t, static_cast<int64_t>(d)};
  }
  const Tensor& mask = found.mask;
  if (!mask.defined() || mask.dim() == 0 || mask.dim() + static_cast<int64_t>(indices.size()) - 1 > x.dim()) return {};
  for (int64_t d = 0; d < mask.dim(); ++d)
    if (mask.size(d) != x.size(found.first + d)) return {};
  return found;
}

// The values that x[mask] is set to in the shape in which they broadcast to x; undefined if there is another one for
// each element of the mask.
Tensor alike_where(const Tensor& x, const OnlyMask& m, const Tensor& values) {
  if (values.numel() == 1) return values.reshape({});
  const int64_t behind = x.dim() - m.first - m.mask.dim(), before = values.dim() - behind - 1;
  if (before > m.first || (before >= 0 && values.size(before) != 1)) return {};
  auto sizes = values.sizes().vec();
  if (before >= 0) sizes.insert(sizes.begin() + before, static_cast<size_t>(m.mask.dim() - 1), 1);
  Tensor shaped = values.reshape(sizes);
  return at::is_expandable_to(shaped.sizes(), x.sizes()) ? shaped : Tensor();
}

// x[mask] = what does not depend on how many elements the mask picks: it chooses, and reads nothing.
bool fill_masked(Tensor& x, const Indices& indices, const Tensor& values) {
  if (!is_ours(x) || x.numel() == 0 || values.scalar_type() != x.scalar_type()) return false;
  if (!(is_ours(values) || (values.is_cpu() && values.numel() == 1)) || overlaps_itself(x)) return false;
  const OnlyMask m = only_mask(x, indices);
  if (!m.mask.defined() || m.mask.is_alias_of(x)) return false;
  const Tensor value = alike_where(x, m, values);
  if (!value.defined() || (value.dim() > 0 && value.is_alias_of(x))) return false;
  Tensor mask = m.mask;
  const bool is_bytes = mask.scalar_type() == at::kByte;
  if (is_bytes && value.dim() == 0) return false;
  if (is_bytes) warn_of_bytes(), mask = mask.to(at::kBool);
  while (m.first + mask.dim() < x.dim()) mask = mask.unsqueeze(-1);
  if (value.dim() == 0) {
    x.masked_fill_(mask, value);
    return true;
  }
  lazy::Recording r;
  const ir::Dims shape = lazy::to_dims(x.sizes());
  const auto spread = [&](const Tensor& t) { return r.broadcast(r.value(t), shape); };
  r.write(x, r.emit(ir::Op::where, {spread(mask), spread(value), r.value(x)}));
  return true;
}

// Torch refuses to write what it indexes with. And of one value where bytes are not zero it makes masked_fill_, which
// wants a mask of bools.
bool is_refused(const Tensor& x, const Indices& indices, const Tensor& values, bool accumulate) {
  for (size_t d = 0; d < indices.size(); ++d)
    if (const std::optional<Tensor> t = indices.get(d); t && t->defined() && t->is_alias_of(x)) return true;
  if (accumulate || values.numel() != 1) return false;
  const Tensor mask = only_mask(x, indices).mask;
  return mask.defined() && mask.scalar_type() == at::kByte;
}

Tensor& index_put(Tensor& x, const Indices& indices, const Tensor& values, bool accumulate, bool unsafe) {
  if (!accumulate && fill_masked(x, indices, values)) return x;
  auto i = is_refused(x, indices, values, accumulate) ? std::nullopt : read_indices(x, indices);
  const bool fits = i && values.scalar_type() == x.scalar_type() && (is_ours(values) || is_number(values)) &&
                    at::is_expandable_to(values.sizes(), lazy::to_ref(i->shape)) &&
                    !(accumulate && x.scalar_type() == at::kBool) && is_writable(x, {&values});
  if (fits)
    write(x, *i, values, accumulate);
  else
    fall_back<Tensor>("aten::_index_put_impl_", "", x, indices, values, accumulate, unsafe);
  return x;
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  const bool fits = is_ours(x) && is_ours(mask) && mask.scalar_type() == at::kBool && x.numel() > 0 &&
                    at::are_expandable(x.sizes(), mask.sizes());
  if (!fits) return fall_back<Tensor>("aten::masked_select", "", x, mask);
  const auto shape = at::infer_size_dimvector(x.sizes(), mask.sizes());
  const Tensor positions = positions_of(mask.expand(shape));
  lazy::Recording r;
  const ir::Value all = r.broadcast(r.value(x), lazy::to_dims(shape));
  const ir::Value row = r.reshape(all, ir::Dims{ir::product(r.shape(all))});
  return r.tensor(r.emit(ir::Op::index_select, {row, r.value(positions)}, {{0}}), x.scalar_type());
}

// In memory a row for each dimension, as torch has it.
Tensor nonzero(const Tensor& x) {
  if (!is_ours(x) || x.numel() == 0 || x.dim() == 0) return fall_back<Tensor>("aten::nonzero", "", x);
  const Tensor positions = positions_of(x);
  const int64_t count = positions.numel();
  lazy::Recording r;
  std::vector<ir::Value> rows(static_cast<size_t>(x.dim()));
  for_each_coordinate(r, r.value(positions), lazy::to_dims(x.sizes()),
                      [&](size_t d, ir::Value v) { rows[d] = r.reshape(v, ir::Dims{1, count}); });
  const ir::Value all = rows.size() == 1 ? rows[0] : r.emit(ir::Op::cat, rows, {{0}}, {});
  return r.tensor(all, at::kLong, {count, x.dim()}, {1, count});
}

}  // namespace

void register_advanced_indexing(torch::Library& m) {
  m.impl("index.Tensor", index);
  m.impl("_index_put_impl_", index_put);
  m.impl("masked_select", masked_select);
  m.impl("nonzero", nonzero);
}

}  // namespace lazuli::backend
