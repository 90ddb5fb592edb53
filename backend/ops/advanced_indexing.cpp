// x[i, j, :, k] with integral index tensors, read and written. Together the indices give one position along a single
// dimension that stands for all that they index, so that reading is one gather and writing one scatter of slices.
#include <numeric>
#include <ATen/ExpandUtils.h>
#include <ATen/core/IListRef.h>
#include "backend/record/dispatch.h"
#include "backend/record/operands.h"
#include "backend/record/registration.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using Indices = c10::List<std::optional<Tensor>>;

struct Indexing {
  ir::Dims dims;              // that are indexed
  std::vector<Tensor> index;  // one for each
  ir::Dims entries;           // the shape that the indices broadcast to
  size_t first = 0;           // where it stands in the result
  ir::Dims shape;             // of the result

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

// None where the rules are eager's to apply: masks, errors, nothing to select from or with.
std::optional<Indexing> read_indices(const Tensor& x, const Indices& indices) {
  if (!is_ours(x) || x.numel() == 0 || static_cast<int64_t>(indices.size()) > x.dim()) return {};
  Indexing i;
  for (size_t d = 0; d < indices.size(); ++d) {
    std::optional<Tensor> t = indices.get(d);
    if (!t || !t->defined()) continue;
    if (t->scalar_type() != at::kLong && t->scalar_type() != at::kInt) return {};
    if (t->numel() == 0 || !(t->is_cpu() || is_ours(*t))) return {};
    if (!at::are_expandable(lazy::to_ref(i.entries), t->sizes())) return {};
    auto entries = at::infer_size_dimvector(lazy::to_ref(i.entries), t->sizes());
    i.entries.assign(entries.data(), entries.size());
    i.dims.push_back(static_cast<int64_t>(d));
    i.index.push_back(t->is_cpu() ? t->to(x.device()) : *t);
  }
  if (i.dims.empty()) return {};
  // Indices side by side are replaced where they stand; otherwise the entries lead.
  const bool adjacent = i.dims.back() - i.dims[0] + 1 == static_cast<int64_t>(i.dims.size());
  i.first = adjacent ? static_cast<size_t>(i.dims[0]) : 0;
  i.shape = spliced(unindexed(lazy::to_dims(x.sizes()), i), i.first, i.entries);
  return i;
}

// The sum of each index times `steps`, in the shape of the entries.
ir::Value position(lazy::Recording& r, const Tensor& x, const Indexing& i, const ir::Dims& steps) {
  ir::Value sum;
  for (size_t k = 0; k < i.dims.size(); ++k) {
    ir::Value v = r.value(i.index[k]);
    v = r.emit(ir::Op::index_position, {v, r.constant(static_cast<double>(x.size(i.dims[k])), r.dtype(v))});
    v = r.convert(v, ir::DType::I64);
    if (steps[k] != 1) v = r.mul(v, static_cast<double>(steps[k]));
    sum = sum ? r.add(sum, v) : v;
  }
  return r.broadcast(sum, i.entries);
}

// torch walks the elements of x and of the indices as an elementwise kernel does, and the result follows.
lazy::Order order_of_result(const Tensor& x, const Indexing& i) {
  bool row_major = x.is_contiguous();
  for (const Tensor& t : i.index) row_major &= t.is_contiguous();
  if (row_major) return {};
  const ir::Dims strides = unindexed(lazy::to_dims(x.strides()), i);
  std::vector<ir::Dims> walks{spliced(strides, i.first, ir::Dims(i.entries.size(), 0))};
  for (const Tensor& t : i.index)
    walks.push_back(spliced(ir::Dims(strides.size(), 0), i.first, aligned_strides(t, i.entries)));
  return order_of_walks(walks, i.shape);
}

// The gathered dimension steps through x's memory by the largest step that reaches all that is indexed; a view that
// overlaps itself, but what is read of it lies inside x.
Tensor read(const Tensor& x, const Indexing& i) {
  const lazy::Order order = order_of_result(x, i);
  lazy::Order memory;
  if (!lazy::memory_order(x.sizes(), x.strides(), memory)) memory.clear();
  lazy::Recording r;
  ir::Value v = r.value(x, memory);
  const ir::Dims dense = ir::contiguous_strides(r.shape(v));
  ir::Dims strides = dense;
  for (size_t d = 0; d < memory.size(); ++d) strides[memory[d]] = dense[d];

  int64_t step = 0, last = 0;
  for (int64_t d : i.dims) step = std::gcd(step, int64_t{strides[d]}), last += (x.size(d) - 1) * strides[d];
  ir::Dims steps;
  for (int64_t d : i.dims) steps.push_back(strides[d] / step);
  const ir::Dims shape = spliced(unindexed(lazy::to_dims(x.sizes()), i), i.first, {last / step + 1});
  const ir::Dims window = spliced(unindexed(strides, i), i.first, {step});
  if (r.shape(v) != shape || window != dense) {
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

// A mask of x where it is all that indexes, in a shape that broadcasts to x's; undefined otherwise.
Tensor read_mask(const Tensor& x, const Indices& indices) {
  Tensor mask;
  int64_t first = 0;
  for (size_t d = 0; d < indices.size(); ++d) {
    std::optional<Tensor> t = indices.get(d);
    if (!t || !t->defined()) continue;
    if (mask.defined() || t->scalar_type() != at::kBool || !is_ours(*t)) return {};
    mask = *t;
    first = static_cast<int64_t>(d);
  }
  if (!mask.defined() || mask.dim() == 0 || mask.dim() + static_cast<int64_t>(indices.size()) - 1 > x.dim()) return {};
  const int64_t behind = x.dim() - first - mask.dim();
  for (int64_t d = 0; d < mask.dim(); ++d)
    if (mask.size(d) != x.size(first + d)) return {};
  for (int64_t d = 0; d < behind; ++d) mask = mask.unsqueeze(-1);
  return mask;
}

// x[mask] = one value of x's type, which chooses and depends on no data.
bool fill_masked(Tensor& x, const Indices& indices, const Tensor& values) {
  if (!is_ours(x) || x.numel() == 0 || values.numel() != 1 || values.scalar_type() != x.scalar_type()) return false;
  if (!(values.is_cpu() || is_ours(values)) || overlaps_itself(x)) return false;
  const Tensor mask = read_mask(x, indices);
  if (!mask.defined() || mask.storage().unsafeGetStorageImpl() == x.storage().unsafeGetStorageImpl()) return false;
  x.masked_fill_(mask, values.reshape({}));
  return true;
}

Tensor& index_put(Tensor& x, const Indices& indices, const Tensor& values, bool accumulate, bool unsafe) {
  if (!accumulate && fill_masked(x, indices, values)) return x;
  auto i = read_indices(x, indices);
  const bool fits = i && values.scalar_type() == x.scalar_type() && (is_ours(values) || is_number(values)) &&
                    at::is_expandable_to(values.sizes(), lazy::to_ref(i->shape)) &&
                    !(accumulate && x.scalar_type() == at::kBool) && is_writable(x, {&values}) &&
                    std::ranges::none_of(i->index, [&](const Tensor& t) { return t.is_alias_of(x); });
  if (fits)
    write(x, *i, values, accumulate);
  else
    fall_back<Tensor>("aten::_index_put_impl_", "", x, indices, values, accumulate, unsafe);
  return x;
}

}  // namespace

void register_advanced_indexing(torch::Library& m) {
  m.impl("index.Tensor", index);
  m.impl("_index_put_impl_", index_put);
}

}  // namespace lazuli::backend
