#include "backend/autograd/view_derivative.h"

#include <algorithm>
#include <ATen/Functions.h>
#include "ir/autodiff.h"
#include "lazy/record/fragment.h"

namespace lazuli::backend {

// The sizes of a result that has all dimensions.
ir::Dims ViewDerivative::piece(size_t result) const {
  ir::Dims out = sizes;
  out[numbers[0]] = form == Form::Slice ? numbers[2] : numbers[1 + result];
  return out;
}

ir::Value ViewDerivative::gradient(lazy::Recording& r, std::span<const ir::Value> results) const {
  switch (form) {
    case Form::Reshape:
      return r.reshape(results[0], sizes);
    case Form::Broadcast:
      return r.sum_to(results[0], sizes);
    case Form::Permute:
      return r.permute(results[0], numbers);
    case Form::Slice: {
      ir::Dims starts(sizes.size(), 0), steps(sizes.size(), 1);
      starts[numbers[0]] = numbers[1];
      steps[numbers[0]] = numbers[3];
      ir::Value g = piece_gradient(r, results[0]);
      return ir::spread_slice(r, g, {r.dtype(g), sizes}, starts, steps);
    }
    case Form::Split:
    case Form::Join:
      break;
  }
  Pieces split{numbers[0], sizes, {}};
  c10::SmallVector<ir::Value, 4> pieces;
  int64_t at = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    split.ranges.push_back({at, at + numbers[1 + i]});
    at = split.ranges.back().end;
    pieces.push_back(results[i] ? r.reshape(results[i], piece(i)) : ir::Value());
  }
  return split.whole(r, {pieces.data(), pieces.size()});
}

void ViewDerivative::gradients(lazy::Recording& r, std::span<const ir::Value> results, uint64_t needs,
                               std::span<ir::Value> out) const {
  if (form != Form::Join) {
    out[0] = gradient(r, results);
    return;
  }
  ir::Dims starts(sizes.size(), 0), part = sizes, own = sizes;
  const ir::Dims steps(sizes.size(), 1);
  const int64_t dim = numbers[0];
  if (numbers[1] != 0) own.erase(static_cast<size_t>(dim));
  for (size_t i = 0; i < out.size(); ++i) {
    part[dim] = numbers[2 + i];
    if (needs & mask_of(i)) {
      out[i] = r.emit(ir::Op::slice, {results[0]}, ir::Attrs().add(starts).add(part).add(steps));
      if (numbers[1] != 0) out[i] = r.reshape(out[i], own);
    }
    starts[dim] += numbers[2 + i];
  }
}

at::Tensor ViewDerivative::gradient_tensor(lazy::Recording& r, ir::Value g, c10::ScalarType type) const {
  if (form != Form::Permute) return r.tensor(g, type);
  const lazy::Order order = lazy::inverse_of(numbers);
  return r.tensor(r.permute(g, order), type, order);
}

std::vector<at::Tensor> ViewDerivative::gradients(at::ArrayRef<at::Tensor> results) const {
  if (form != Form::Join) return {gradient(results)};
  const int64_t dim = numbers[0];
  if (numbers[1] != 0) return at::unbind(results[0], dim);
  std::vector<at::Tensor> out;
  int64_t at = 0;
  for (size_t i = 0; i < operands(); ++i) {
    const int64_t count = numbers[2 + i];
    out.push_back(at::narrow(results[0], dim, at, count));
    at += count;
  }
  return out;
}

at::Tensor ViewDerivative::gradient(at::ArrayRef<at::Tensor> results) const {
  const at::IntArrayRef whole = lazy::to_ref(sizes);
  // A sparse gradient has no reshape, and the other formulas have words of their own for it.
  auto part = [&](size_t i) {
    const ir::Dims shape = piece(i);
    return ir::equal(shape, results[i].sizes()) ? results[i] : results[i].reshape(lazy::to_ref(shape));
  };
  switch (form) {
    case Form::Reshape:
      return results[0].reshape(whole);
    case Form::Broadcast:
      return results[0].sum_to_size(whole);
    case Form::Permute:
      return results[0].permute(lazy::to_ref(numbers));
    case Form::Slice:
      if (results[0].sizes().size() < whole.size())
        return at::select_backward(results[0], whole, numbers[0], numbers[1]);
      return at::slice_backward(part(0), whole, numbers[0], numbers[1], numbers[1] + numbers[2] * numbers[3],
                                numbers[3]);
    case Form::Split:
    case Form::Join:
      break;
  }
  at::TensorOptions options;
  for (const at::Tensor& g : results)
    if (g.defined()) options = g.options();
  std::vector<at::Tensor> pieces;
  for (size_t i = 0; i < results.size(); ++i)
    pieces.push_back(results[i].defined() ? part(i) : at::zeros(lazy::to_ref(piece(i)), options));
  return at::cat(pieces, numbers[0]);
}

size_t Pieces::take(const ViewDerivative& piece) {
  const Range range{piece.numbers[1], piece.numbers[1] + piece.numbers[2]};
  if (ranges.empty())
    dim = piece.numbers[0], sizes = piece.sizes;
  else if (dim != piece.numbers[0] || sizes != piece.sizes)
    return SIZE_MAX;
  const auto at = std::ranges::lower_bound(ranges, range.begin, {}, &Range::begin);
  if ((at != ranges.end() && at->begin < range.end) || (at != ranges.begin() && std::prev(at)->end > range.begin))
    return SIZE_MAX;
  const auto place = static_cast<size_t>(at - ranges.begin());
  ranges.insert(at, range);
  return place;
}

ir::Value Pieces::whole(lazy::Recording& r, std::span<const ir::Value> pieces) const {
  const ir::DType type = r.dtype(*std::ranges::find_if(pieces, [](ir::Value g) { return static_cast<bool>(g); }));
  const auto along = static_cast<size_t>(dim);
  c10::SmallVector<ir::Value, 8> list;
  int64_t at = 0;
  const auto zeros_until = [&](int64_t end) {
    ir::Dims gap = sizes;
    gap[along] = end - at;
    if (end > at) list.push_back(r.full(gap, 0, type));
  };
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!pieces[i]) continue;
    zeros_until(ranges[i].begin);
    list.push_back(pieces[i]);
    at = ranges[i].end;
  }
  zeros_until(sizes[along]);
  return r.emit(ir::Op::cat, std::span<const ir::Value>(list.data(), list.size()), {{dim}});
}

}  // namespace lazuli::backend
